<?php
/** Stockhold can't be used now: it does not answer, it fails, it refuses the API key, or the circuit breaker is open. */
declare(strict_types=1);

namespace Stockhold\Reservation\Client;

final class Unreachable extends \RuntimeException
{
}
