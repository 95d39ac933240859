<?php
/**
 * `sales_quote_item_qty_set_after`: refuses a line that grew beyond what Stockhold has, before the cart is saved. It marks the line and
 * the cart, as Magento's own check of quantities does; the caller decides whether the cart is saved. So a login, a merge or a cron job
 * goes on.
 */
declare(strict_types=1);

namespace Stockhold\Reservation\Observer;

use Magento\Framework\Event\Observer;
use Magento\Framework\Event\ObserverInterface;
use Magento\Quote\Model\Quote\Item;
use Magento\Quote\Model\Quote\Item\AbstractItem;
use Psr\Log\LoggerInterface;
use Stockhold\Reservation\Client\Clock;
use Stockhold\Reservation\Client\Unreachable;
use Stockhold\Reservation\Hold\AvailabilityCheck;
use Stockhold\Reservation\Hold\BuyerMessages;
use Stockhold\Reservation\Hold\Hold;
use Stockhold\Reservation\Hold\Settings;
use Stockhold\Reservation\Hold\SettingsSource;
use Stockhold\Reservation\Model\BuyerFactory;
use Stockhold\Reservation\Model\CartLines;
use Stockhold\Reservation\Model\QuoteHolds;

final class CheckQuantity implements ObserverInterface
{
    private const ORIGIN = 'stockhold';
    private const CODE = 1;

    public function __construct(
        private readonly SettingsSource $settings,
        private readonly CartLines $cartLines,
        private readonly BuyerFactory $buyerFactory,
        private readonly AvailabilityCheck $check,
        private readonly Clock $clock,
        private readonly LoggerInterface $logger
    ) {
    }

    public function execute(Observer $observer): void
    {
        $item = $observer->getEvent()->getData('item');
        $quote = $item instanceof Item ? $item->getQuote() : null;
        if ($quote === null || !$item->getProductId() || $quote->getIsSuperMode()) {
            return;
        }
        $settings = $this->settings->ofStore((int)$quote->getStoreId());
        if (!$settings->isEnabled) {
            return;
        }
        try {
            $message = $this->refusal($item, $settings);
        } catch (\Throwable $error) {
            // A cart can't be loaded without this event, so nothing may be thrown. The order is checked again when it is placed.
            $this->logger->error("Stockhold: a line was not checked: {$error->getMessage()}", ['exception' => $error]);
            return;
        }
        if ($message === null) {
            $this->clear($item);
            return;
        }
        [$template, $arguments] = $message;
        $item->addErrorInfo(self::ORIGIN, self::CODE, __($template, ...$arguments));
        $quote->addErrorInfo('stock', self::ORIGIN, self::CODE, __('Some of the products are not available in this quantity.'));
    }

    /** @return array{string, list<string|int>}|null why the line can't be so large */
    private function refusal(Item $item, Settings $settings): ?array
    {
        $quote = $item->getQuote();
        $terms = $this->buyerFactory->ofQuote($quote, $settings)->terms;
        $hold = Hold::fromColumns($quote->getData(QuoteHolds::RESERVATION_ID), $quote->getData(QuoteHolds::HOLD));
        foreach ($this->cartLines->leaves($item) as $leaf) {
            $sku = $this->cartLines->heldSku($leaf, $settings);
            if ($sku === null) {
                continue;
            }
            try {
                $shortage = $this->check->shortage($settings, $terms, $hold, $sku, $this->wanted($leaf));
            } catch (Unreachable $error) {
                $this->logger->warning("Stockhold: {$error->getMessage()}");
                if ($settings->refusesInOutage()) {
                    return BuyerMessages::unreachable();
                }
                continue;
            }
            if ($shortage !== null) {
                return BuyerMessages::shortage($shortage, $this->clock->now());
            }
        }
        return null;
    }

    /** Units of the same product over all lines of the cart. */
    private function wanted(AbstractItem $leaf): int
    {
        $units = 0;
        $isCounted = false;
        foreach ($leaf->getQuote()->getAllItems() as $other) {
            if ((int)$other->getProductId() === (int)$leaf->getProductId() && !$other->getHasChildren()) {
                $units += $this->cartLines->units($other);
                $isCounted = $isCounted || $other === $leaf;
            }
        }
        // A line gets its quantity before or after it is added to the cart.
        return $isCounted ? $units : $units + $this->cartLines->units($leaf);
    }

    private function clear(Item $item): void
    {
        $mark = ['origin' => self::ORIGIN, 'code' => self::CODE];
        if ($item->getHasError()) {
            $item->removeErrorInfosByParams($mark);
        }
        $quote = $item->getQuote();
        if (!$quote->getHasError()) {
            return;
        }
        foreach ($quote->getAllItems() as $other) {
            foreach ($other->getErrorInfos() as $info) {
                if ($info['origin'] === self::ORIGIN) {
                    return;
                }
            }
        }
        $quote->removeErrorInfosByParams('stock', $mark);
    }
}
