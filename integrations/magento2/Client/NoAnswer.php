<?php
/** No complete answer came: the server may or may not have done what was asked. */
declare(strict_types=1);

namespace Stockhold\Reservation\Client;

final class NoAnswer extends \RuntimeException
{
}
