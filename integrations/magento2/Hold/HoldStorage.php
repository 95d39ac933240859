<?php
/** Where quotes remember their holds. */
declare(strict_types=1);

namespace Stockhold\Reservation\Hold;

interface HoldStorage
{
    public function find(int $quoteId): ?Hold;

    /**
     * Stores another hold if the quote still has the expected one.
     *
     * @return bool false if another request has stored one meanwhile
     */
    public function replace(int $quoteId, ?string $expectedReservationId, ?Hold $hold): bool;
}
