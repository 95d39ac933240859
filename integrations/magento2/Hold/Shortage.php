<?php
/** A line of a cart that Stockhold has too few units for. */
declare(strict_types=1);

namespace Stockhold\Reservation\Hold;

use Stockhold\Reservation\Client\Refusal;

final class Shortage
{
    public function __construct(
        public readonly string $sku,
        public readonly int $requested,
        /** The largest quantity that the cart can have. */
        public readonly int $available,
        public readonly ?string $nextExpiryAt = null
    ) {
    }

    /** The first line that a refusal is about, if it is about one. */
    public static function fromRefusal(Refusal $refusal): ?self
    {
        $line = $refusal->problem['lines'][0] ?? null;
        if (is_array($line) && isset($line['sku'], $line['available'])) {
            return new self(
                (string)$line['sku'],
                (int)($line['requested_quantity'] ?? 0),
                (int)$line['available'],
                isset($line['next_expiry_at']) ? (string)$line['next_expiry_at'] : null
            );
        }
        $item = $refusal->problem['items'][0] ?? null;
        return $refusal->reason === 'unknown_item' && is_array($item)
            ? new self((string)($item['sku'] ?? ''), 0, 0)
            : null;
    }
}
