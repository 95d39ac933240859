<?php
/** Commands that wait to be sent to Stockhold. Those of one order are sent in the order in which they were added. */
declare(strict_types=1);

namespace Stockhold\Reservation\Sale;

interface Queue
{
    /** @param array<string, mixed> $body @return int the id of the entry */
    public function add(OrderKey $order, string $kind, string $key, array $body, float $dueAt): int;

    public function has(OrderKey $order): bool;

    /** @return list<QueueEntry> due entries that are the oldest of their order */
    public function due(float $now, int $limit): array;

    public function postpone(int $entryId, float $dueAt, string $error): void;

    public function remove(int $entryId): void;
}
