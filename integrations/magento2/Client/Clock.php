<?php
/** Time as an input. Tests replace it. */
declare(strict_types=1);

namespace Stockhold\Reservation\Client;

interface Clock
{
    /** Seconds since 1970. */
    public function now(): float;

    public function sleep(float $seconds): void;
}
