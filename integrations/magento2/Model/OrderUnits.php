<?php
/**
 * How many units of the held lines of an order were ordered, shipped, cancelled or refunded. Magento counts some of this at the parent
 * of a configurable product or a bundle and some at its children; a line that Magento calls a dummy counts by its parent.
 */
declare(strict_types=1);

namespace Stockhold\Reservation\Model;

use Magento\Sales\Model\Order;
use Magento\Sales\Model\Order\Creditmemo;
use Magento\Sales\Model\Order\Item;
use Stockhold\Reservation\Hold\Lines;

class OrderUnits
{
    public function ordered(Order $order): Lines
    {
        $lines = Lines::none();
        foreach ($this->held($order) as $item) {
            $lines = $lines->with($this->sku($item), $this->quantity($item));
        }
        return $lines;
    }

    /** @return list<Item> the lines that Stockhold holds */
    public function held(Order $order): array
    {
        $isHeld = fn (Item $item): bool => $this->sku($item) !== '' && $this->quantity($item) > 0;
        return array_values(array_filter($order->getAllItems(), $isHeld));
    }

    public function sku(Item $item): string
    {
        return (string)$item->getData(DbOrderRecords::SKU);
    }

    public function shipped(Item $item): int
    {
        $counted = $this->countedForShipment($item);
        return $this->inUnits($item, $counted, (float)$counted->getQtyShipped());
    }

    /**
     * Units of a cancelled line that were neither shipped nor invoiced. Where units were refunded before they were shipped, Magento's
     * own figures can cancel them a second time, so it is never more than what Stockhold still has to ship.
     */
    public function cancelled(Item $item): int
    {
        $counted = $this->countedForInvoice($item);
        $invoiced = $this->inUnits($item, $counted, (float)$counted->getQtyInvoiced());
        $wanted = $this->quantity($item) - max($this->shipped($item), $invoiced);
        return max(0, min($wanted, $this->onShelf($item) + $this->count($item, DbOrderRecords::CANCELLED)));
    }

    /**
     * What a credit memo gives back of a line.
     *
     * @return array{unshipped: int, shipped: int, is_restocked: bool} units that never left the shelf come first, as in Magento
     */
    public function refunded(Creditmemo $creditmemo, Item $item): array
    {
        $counted = $this->countedForInvoice($item);
        foreach ($creditmemo->getAllItems() as $row) {
            if ((int)$row->getOrderItemId() !== (int)$counted->getId()) {
                continue;
            }
            $units = $this->inUnits($item, $counted, (float)$row->getQty());
            $unshipped = min($units, $this->onShelf($item));
            return [
                'unshipped' => $unshipped,
                'shipped' => $units - $unshipped,
                'is_restocked' => (bool)$row->getBackToStock(),
            ];
        }
        return ['unshipped' => 0, 'shipped' => 0, 'is_restocked' => false];
    }

    public function count(Item $item, string $column): int
    {
        return (int)$item->getData($column);
    }

    private function quantity(Item $item): int
    {
        return $this->count($item, DbOrderRecords::QUANTITY);
    }

    /** Sold units that Stockhold knows neither as shipped nor as returned. */
    private function onShelf(Item $item): int
    {
        return max(0, $this->quantity($item) - $this->count($item, DbOrderRecords::SHIPPED)
            - $this->count($item, DbOrderRecords::CANCELLED) - $this->count($item, DbOrderRecords::REFUNDED_UNSHIPPED));
    }

    private function countedForShipment(Item $item): Item
    {
        return $item->isDummy(true) ? $this->parent($item) ?? $item : $item;
    }

    private function countedForInvoice(Item $item): Item
    {
        return $item->isDummy() ? $this->parent($item) ?? $item : $item;
    }

    private function parent(Item $item): ?Item
    {
        $parent = $item->getParentItem();
        if ($parent === null && $item->getParentItemId() !== null) {
            $parent = $item->getOrder()->getItemById($item->getParentItemId());
        }
        return $parent instanceof Item ? $parent : null;
    }

    private function inUnits(Item $item, Item $counted, float $quantity): int
    {
        $ordered = (float)$counted->getQtyOrdered();
        $perCounted = $counted === $item || $ordered <= 0.0 ? 1.0 : $this->quantity($item) / $ordered;
        return (int)round($quantity * $perCounted);
    }
}
