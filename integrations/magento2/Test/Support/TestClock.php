<?php
/** A clock that runs with the machine's and can be moved. It sleeps by moving itself. */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\Support;

use Stockhold\Reservation\Client\Clock;

final class TestClock implements Clock
{
    public float $ahead = 0.0;

    public function now(): float
    {
        return microtime(true) + $this->ahead;
    }

    public function sleep(float $seconds): void
    {
        $this->ahead += $seconds;
    }
}
