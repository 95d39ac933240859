<?php
/** One command of the queue. */
declare(strict_types=1);

namespace Stockhold\Reservation\Sale;

final class QueueEntry
{
    public const SALE = 'sale';
    public const FULFIL = 'fulfil';
    public const RETURN = 'return';

    /** @param array<string, mixed> $body */
    public function __construct(
        public readonly int $id,
        public readonly OrderKey $order,
        public readonly string $kind,
        public readonly string $key,
        public readonly array $body,
        public readonly int $attempts,
        public readonly float $createdAt
    ) {
    }
}
