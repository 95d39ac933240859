<?php
/** The clock of the machine. */
declare(strict_types=1);

namespace Stockhold\Reservation\Client;

final class SystemClock implements Clock
{
    public function now(): float
    {
        return microtime(true);
    }

    public function sleep(float $seconds): void
    {
        usleep((int)round($seconds * 1_000_000));
    }
}
