<?php
/** Sends one HTTP request. Tests replace it. */
declare(strict_types=1);

namespace Stockhold\Reservation\Client;

interface Http
{
    /** @throws NoAnswer when no complete answer came */
    public function send(Request $request): Answer;
}
