<?php
/** Names an order before and after it is saved: its store and its number. The number is the order id in Stockhold. */
declare(strict_types=1);

namespace Stockhold\Reservation\Sale;

final class OrderKey
{
    public function __construct(
        public readonly string $incrementId,
        public readonly int $storeId
    ) {
    }
}
