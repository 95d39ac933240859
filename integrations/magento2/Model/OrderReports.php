<?php
/**
 * Reports cancelled, refunded and shipped lines of an order to Stockhold. Each line counts what was reported, so that a document that
 * is saved again is not reported again.
 */
declare(strict_types=1);

namespace Stockhold\Reservation\Model;

use Magento\Sales\Model\Order;
use Magento\Sales\Model\Order\Creditmemo;
use Magento\Sales\Model\Order\Item;
use Stockhold\Reservation\Hold\Lines;
use Stockhold\Reservation\Hold\SettingsSource;
use Stockhold\Reservation\Sale\OrderCommands;
use Stockhold\Reservation\Sale\OrderKey;
use Stockhold\Reservation\Sale\OrderRecords;

class OrderReports
{
    private const REFUND_REASON = 'credit memo';

    public function __construct(
        private readonly SettingsSource $settings,
        private readonly OrderUnits $units,
        private readonly OrderCommands $commands,
        private readonly OrderRecords $records
    ) {
    }

    public function shipped(Order $order): void
    {
        if (!$this->isKnown($order)) {
            return;
        }
        $shipped = [];
        foreach ($this->units->held($order) as $item) {
            $shipped[] = [$item, $this->units->shipped($item)];
        }
        $lines = $this->grown($shipped, DbOrderRecords::SHIPPED);
        $settings = $this->settings->ofStore((int)$order->getStoreId());
        $this->commands->fulfil($settings, $this->key($order), $lines, $this->idempotencyKey($order, 'ship', $shipped));
        foreach ($shipped as [$item, $units]) {
            $this->storeCount($item, DbOrderRecords::SHIPPED, $units);
        }
    }

    /** @param array<int, true> $itemIds the cancelled lines, parents or children */
    public function cancelled(Order $order, array $itemIds): void
    {
        if ($itemIds === [] || !$this->isKnown($order)) {
            return;
        }
        $cancelled = [];
        foreach ($this->units->held($order) as $item) {
            if (isset($itemIds[(int)$item->getId()]) || isset($itemIds[(int)$item->getParentItemId()])) {
                $cancelled[] = [$item, $this->units->cancelled($item)];
            }
        }
        $lines = $this->grown($cancelled, DbOrderRecords::CANCELLED);
        $settings = $this->settings->ofStore((int)$order->getStoreId());
        $key = $this->idempotencyKey($order, 'cancel', $cancelled);
        $from = OrderCommands::UNSHIPPED;
        $this->commands->returnUnits($settings, $this->key($order), $lines, $key, 'order cancelled', $from, OrderCommands::RESTOCK);
        foreach ($cancelled as [$item, $units]) {
            $this->storeCount($item, DbOrderRecords::CANCELLED, $units);
        }
    }

    /** Units that were never shipped can be sold again. Shipped ones only if they go back to stock; else they are written off. */
    public function refunded(Creditmemo $creditmemo): void
    {
        $order = $creditmemo->getOrder();
        if ($creditmemo->getData(DbOrderRecords::CREDITMEMO_BOOKED) || !$this->isKnown($order)) {
            return;
        }
        $unshipped = $restocked = $writtenOff = Lines::none();
        $totals = [];
        foreach ($this->units->held($order) as $item) {
            $refunded = $this->units->refunded($creditmemo, $item);
            $sku = $this->units->sku($item);
            $unshipped = $unshipped->with($sku, $refunded['unshipped']);
            $totals[] = [$item, $this->units->count($item, DbOrderRecords::REFUNDED_UNSHIPPED) + $refunded['unshipped']];
            if ($refunded['is_restocked']) {
                $restocked = $restocked->with($sku, $refunded['shipped']);
            } else {
                $writtenOff = $writtenOff->with($sku, $refunded['shipped']);
            }
        }
        $parts = [
            ['unshipped', $unshipped, OrderCommands::UNSHIPPED, OrderCommands::RESTOCK],
            ['restocked', $restocked, OrderCommands::SHIPPED, OrderCommands::RESTOCK],
            ['written-off', $writtenOff, OrderCommands::SHIPPED, OrderCommands::WRITE_OFF],
        ];
        $settings = $this->settings->ofStore((int)$order->getStoreId());
        foreach ($parts as [$name, $lines, $from, $disposition]) {
            $key = "{$order->getIncrementId()}-refund-{$creditmemo->getIncrementId()}-{$name}";
            $this->commands->returnUnits($settings, $this->key($order), $lines, $key, self::REFUND_REASON, $from, $disposition);
        }
        foreach ($totals as [$item, $units]) {
            $this->storeCount($item, DbOrderRecords::REFUNDED_UNSHIPPED, $units);
        }
        $this->records->setCreditmemoBooked((int)$creditmemo->getId());
        $creditmemo->setData(DbOrderRecords::CREDITMEMO_BOOKED, 1);
    }

    /** Whether the order was sold through this module. */
    private function isKnown(Order $order): bool
    {
        return (string)$order->getData(DbOrderRecords::STATE) !== '';
    }

    /** @param list<array{Item, int}> $counts the new totals */
    private function grown(array $counts, string $column): Lines
    {
        $lines = Lines::none();
        foreach ($counts as [$item, $units]) {
            $lines = $lines->with($this->units->sku($item), max(0, $units - $this->units->count($item, $column)));
        }
        return $lines;
    }

    private function storeCount(Item $item, string $column, int $units): void
    {
        if ($units > $this->units->count($item, $column)) {
            $this->records->setCount((int)$item->getId(), $column, $units);
            $item->setData($column, $units);
        }
    }

    /** @param list<array{Item, int}> $counts a later report of the order has other totals, and so another key */
    private function idempotencyKey(Order $order, string $what, array $counts): string
    {
        $totals = array_map(static fn (array $count): string => $count[0]->getId() . ':' . $count[1], $counts);
        return "{$order->getIncrementId()}-{$what}-" . substr(hash('sha256', implode(',', $totals)), 0, 32);
    }

    private function key(Order $order): OrderKey
    {
        return new OrderKey((string)$order->getIncrementId(), (int)$order->getStoreId());
    }
}
