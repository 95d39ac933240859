<?php
/** Cancelled lines of orders, from the moment at which Magento cancels them until their order is saved. */
declare(strict_types=1);

namespace Stockhold\Reservation\Model;

use Magento\Sales\Model\Order;
use Magento\Sales\Model\Order\Item;

class Cancellations
{
    /** @var \WeakMap<Order, array<int, true>> */
    private \WeakMap $byOrder;

    public function __construct()
    {
        $this->byOrder = new \WeakMap();
    }

    public function add(Item $item): void
    {
        $order = $item->getOrder();
        $cancelled = $this->byOrder[$order] ?? [];
        $cancelled[(int)$item->getId()] = true;
        $this->byOrder[$order] = $cancelled;
    }

    /** @return array<int, true> ids of order items; they are forgotten */
    public function take(Order $order): array
    {
        $cancelled = $this->byOrder[$order] ?? [];
        unset($this->byOrder[$order]);
        return $cancelled;
    }
}
