<?php
/**
 * `sales_quote_save_commit_after`: makes the hold equal to the saved cart. It never throws, because logins, merges, cron jobs and totals
 * save carts too. A cart that could not be held is held at its next save, or when its order is placed.
 */
declare(strict_types=1);

namespace Stockhold\Reservation\Observer;

use Magento\Framework\Event\Observer;
use Magento\Framework\Event\ObserverInterface;
use Magento\Quote\Model\Quote;
use Psr\Log\LoggerInterface;
use Stockhold\Reservation\Hold\Holds;
use Stockhold\Reservation\Hold\SettingsSource;
use Stockhold\Reservation\Model\BuyerFactory;
use Stockhold\Reservation\Model\CartLines;
use Stockhold\Reservation\Model\QuoteHolds;

final class HoldCart implements ObserverInterface
{
    public function __construct(
        private readonly SettingsSource $settings,
        private readonly CartLines $cartLines,
        private readonly BuyerFactory $buyerFactory,
        private readonly Holds $holds,
        private readonly LoggerInterface $logger
    ) {
    }

    public function execute(Observer $observer): void
    {
        $quote = $observer->getEvent()->getData('quote');
        // A cart that became an order is not active. Its hold is sold, or will be.
        if (!$quote instanceof Quote || !$quote->getId() || !$quote->getIsActive()) {
            return;
        }
        try {
            $this->hold($quote);
        } catch (\Throwable $error) {
            $this->logger->warning("Stockhold: quote {$quote->getId()} is not held: {$error->getMessage()}");
        }
    }

    private function hold(Quote $quote): void
    {
        $settings = $this->settings->ofStore((int)$quote->getStoreId());
        if (!$settings->isEnabled) {
            return;
        }
        $buyer = $this->buyerFactory->ofQuote($quote, $settings);
        foreach ((array)$quote->getData(RememberMerge::MERGED) as $guestQuoteId) {
            $this->holds->mergeGuest($settings, $buyer, (int)$guestQuoteId);
        }
        $quote->unsetData(RememberMerge::MERGED);
        try {
            $this->holds->sync($settings, $buyer, $this->cartLines->ofQuote($quote, $settings));
        } finally {
            $hold = $this->holds->find($buyer->quoteId);
            $quote->setData(QuoteHolds::RESERVATION_ID, $hold?->reservationId);
            $quote->setData(QuoteHolds::HOLD, $hold?->toJson());
        }
    }
}
