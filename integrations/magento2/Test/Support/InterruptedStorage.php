<?php
/** Lets another request of the shop run just before a hold is stored. */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\Support;

use Stockhold\Reservation\Hold\Hold;
use Stockhold\Reservation\Hold\HoldStorage;

final class InterruptedStorage implements HoldStorage
{
    public function __construct(private HoldStorage $storage, private ?\Closure $other)
    {
    }

    public function find(int $quoteId): ?Hold
    {
        return $this->storage->find($quoteId);
    }

    public function replace(int $quoteId, ?string $expectedReservationId, ?Hold $hold): bool
    {
        $other = $this->other;
        $this->other = null;
        if ($other !== null) {
            $other();
        }
        return $this->storage->replace($quoteId, $expectedReservationId, $hold);
    }
}
