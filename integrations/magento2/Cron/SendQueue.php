<?php
/** Every minute: sends to Stockhold what could not be sent before. */
declare(strict_types=1);

namespace Stockhold\Reservation\Cron;

use Stockhold\Reservation\Sale\QueueRunner;

final class SendQueue
{
    public function __construct(private readonly QueueRunner $runner)
    {
    }

    public function execute(): void
    {
        $this->runner->run();
    }
}
