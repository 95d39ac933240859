<?php
/** Keeps the state of circuit breakers between requests of the shop. */
declare(strict_types=1);

namespace Stockhold\Reservation\Client;

interface BreakerStorage
{
    /** @return array{failures: list<float>, open_until: float}|null */
    public function read(string $name): ?array;

    /** @param array{failures: list<float>, open_until: float} $state */
    public function write(string $name, array $state): void;

    public function forget(string $name): void;
}
