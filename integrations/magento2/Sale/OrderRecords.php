<?php
/** What orders remember of Stockhold. */
declare(strict_types=1);

namespace Stockhold\Reservation\Sale;

interface OrderRecords
{
    /** Sold in Stockhold. */
    public const BOOKED = 'booked';
    /** Placed, and not booked yet. */
    public const QUEUED = 'queued';
    /** Placed, and Stockhold has refused it: the units are not there. It is tried again. */
    public const OVERSOLD = 'oversold';

    /** Whether the order was saved. */
    public function exists(OrderKey $order): bool;

    public function state(OrderKey $order): ?string;

    public function reservationId(OrderKey $order): ?string;

    public function book(OrderKey $order, string $reservationId): void;

    public function mark(OrderKey $order, string $state): void;

    /** @param string $column one of the columns in which a line counts what was reported */
    public function setCount(int $orderItemId, string $column, int $units): void;

    public function setCreditmemoBooked(int $creditmemoId): void;
}
