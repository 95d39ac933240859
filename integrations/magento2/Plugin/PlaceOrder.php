<?php
/**
 * Around the placing of an order, outside the plugin of MSI: opens the payment window before, and confirms after. Stockhold decides
 * whether there is stock; Magento's own inventory is kept as before.
 */
declare(strict_types=1);

namespace Stockhold\Reservation\Plugin;

use Magento\Framework\Exception\LocalizedException;
use Magento\Sales\Api\Data\OrderInterface;
use Magento\Sales\Api\OrderManagementInterface;
use Magento\Sales\Model\Order;
use Stockhold\Reservation\Client\Clock;
use Stockhold\Reservation\Client\Refusal;
use Stockhold\Reservation\Client\Unreachable;
use Stockhold\Reservation\Hold\BuyerMessages;
use Stockhold\Reservation\Hold\Settings;
use Stockhold\Reservation\Hold\SettingsSource;
use Stockhold\Reservation\Model\BuyerFactory;
use Stockhold\Reservation\Model\DbOrderRecords;
use Stockhold\Reservation\Model\OrderUnits;
use Stockhold\Reservation\Sale\OrderKey;
use Stockhold\Reservation\Sale\OrderRecords;
use Stockhold\Reservation\Sale\Placement;
use Stockhold\Reservation\Sale\Sales;

final class PlaceOrder
{
    public function __construct(
        private readonly SettingsSource $settings,
        private readonly BuyerFactory $buyerFactory,
        private readonly OrderUnits $units,
        private readonly Sales $sales,
        private readonly OrderRecords $records,
        private readonly Clock $clock
    ) {
    }

    public function aroundPlace(OrderManagementInterface $subject, callable $proceed, OrderInterface $order): OrderInterface
    {
        $settings = $order instanceof Order ? $this->settings->ofStore((int)$order->getStoreId()) : null;
        if ($settings === null || !$settings->isEnabled || !$order->getQuoteId() || $this->units->ordered($order)->isEmpty()) {
            return $proceed($order);
        }
        [$placement, $entryId] = $this->begin($settings, $order);
        $this->setState($order, $placement->reservationId, OrderRecords::QUEUED);
        try {
            $placed = $proceed($order);
        } catch (\Throwable $error) {
            $this->sales->abandon($settings, $placement, $entryId, 'the order was not placed');
            throw $error;
        }
        $state = $this->sales->complete($settings, $placement, $entryId);
        if ($placed instanceof Order) {
            // A reservation that expired meanwhile was replaced by another one.
            $booked = $state === OrderRecords::BOOKED ? $this->records->reservationId($placement->order) : $placement->reservationId;
            $this->setState($placed, $booked, $state);
        }
        return $placed;
    }

    /** @return array{Placement, int} @throws LocalizedException with a text for the buyer */
    private function begin(Settings $settings, Order $order): array
    {
        $key = new OrderKey((string)$order->getIncrementId(), (int)$order->getStoreId());
        try {
            return $this->sales->begin($settings, $this->buyerFactory->ofOrder($order, $settings), $this->units->ordered($order), $key);
        } catch (Refusal $refusal) {
            [$template, $arguments] = BuyerMessages::refusal($refusal, $this->clock->now());
            throw new LocalizedException(__($template, ...$arguments), $refusal);
        } catch (Unreachable $error) {
            [$template, $arguments] = BuyerMessages::unreachable();
            throw new LocalizedException(__($template, ...$arguments), $error);
        }
    }

    private function setState(Order $order, ?string $reservationId, string $state): void
    {
        $order->setData(DbOrderRecords::STATE, $state);
        foreach ($this->units->held($order) as $item) {
            $item->setData(DbOrderRecords::RESERVATION_ID, $reservationId);
        }
    }
}
