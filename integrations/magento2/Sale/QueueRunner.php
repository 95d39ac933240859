<?php
/** Sends to Stockhold what waits in the queue. Two runners at once do no harm: every command has its own idempotency key. */
declare(strict_types=1);

namespace Stockhold\Reservation\Sale;

use Psr\Log\LoggerInterface;
use Stockhold\Reservation\Client\Clock;
use Stockhold\Reservation\Client\Refusal;
use Stockhold\Reservation\Client\Unreachable;
use Stockhold\Reservation\Hold\SettingsSource;

final class QueueRunner
{
    private const AT_ONCE = 200;
    private const FIRST_PAUSE_SECONDS = 30.0;
    private const LONGEST_PAUSE_SECONDS = 3600.0;
    /** An order that is not saved so long after its placing began was never placed. */
    private const NEVER_SAVED_SECONDS = 3600.0;

    public function __construct(
        private readonly Queue $queue,
        private readonly Sales $sales,
        private readonly OrderCommands $commands,
        private readonly OrderRecords $records,
        private readonly SettingsSource $settings,
        private readonly Clock $clock,
        private readonly LoggerInterface $logger
    ) {
    }

    /** @return int commands that were done */
    public function run(): int
    {
        $sent = 0;
        do {
            $done = 0;
            foreach ($this->queue->due($this->clock->now(), self::AT_ONCE) as $entry) {
                $done += $this->isDone($entry) ? 1 : 0;
            }
            $sent += $done;
            // An entry that was removed may have made the next one of its order the oldest.
        } while ($done > 0);
        return $sent;
    }

    private function isDone(QueueEntry $entry): bool
    {
        try {
            return $entry->kind === QueueEntry::SALE ? $this->isSold($entry) : $this->isSent($entry);
        } catch (Refusal | Unreachable $error) {
            $this->postpone($entry, $error->getMessage());
            $this->logger->error("Stockhold: {$entry->kind} of order {$entry->order->incrementId}: {$error->getMessage()}");
            return false;
        }
    }

    private function isSold(QueueEntry $entry): bool
    {
        $settings = $this->settings->ofStore($entry->order->storeId);
        $placement = Placement::fromArray($entry->order, $entry->body);
        if (!$this->records->exists($entry->order)) {
            if ($this->clock->now() - $entry->createdAt < self::NEVER_SAVED_SECONDS) {
                $this->postpone($entry, 'the order is not saved yet');
                return false;
            }
            $this->sales->discard($settings, $placement, $entry->id);
            return true;
        }
        if ($this->records->state($entry->order) === OrderRecords::BOOKED) {
            $this->queue->remove($entry->id);
            return true;
        }
        $state = $this->sales->book($settings, $placement, $entry->id, isRepetition: true);
        if ($state === OrderRecords::QUEUED) {
            $this->postpone($entry, 'Stockhold could not be reached');
        }
        return $state === OrderRecords::BOOKED;
    }

    private function isSent(QueueEntry $entry): bool
    {
        $reservationId = $this->records->reservationId($entry->order);
        if ($reservationId === null) {
            $this->postpone($entry, 'the sale of the order is not booked');
            return false;
        }
        $settings = $this->settings->ofStore($entry->order->storeId);
        $this->commands->send($settings, $reservationId, $entry->kind, $entry->key, $entry->body);
        $this->queue->remove($entry->id);
        return true;
    }

    private function postpone(QueueEntry $entry, string $error): void
    {
        $pause = min(self::FIRST_PAUSE_SECONDS * 2 ** min($entry->attempts, 10), self::LONGEST_PAUSE_SECONDS);
        $this->queue->postpone($entry->id, $this->clock->now() + $pause, $error);
    }
}
