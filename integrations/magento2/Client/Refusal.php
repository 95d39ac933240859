<?php
/** Stockhold's own refusal, such as too little stock. The same request will not succeed by being sent again. */
declare(strict_types=1);

namespace Stockhold\Reservation\Client;

final class Refusal extends \RuntimeException
{
    /** @param array<string, mixed> $problem all members of the answer */
    public function __construct(
        public readonly int $status,
        public readonly string $reason,
        public readonly array $problem
    ) {
        parent::__construct((string)($problem['detail'] ?? "Stockhold answered {$status} {$reason}"));
    }

    /** Whether the reservation has ended, or never existed. */
    public function isEnded(): bool
    {
        return in_array(
            $this->reason,
            ['reservation_expired', 'reservation_cancelled', 'reservation_confirmed', 'unknown_reservation'],
            true
        );
    }
}
