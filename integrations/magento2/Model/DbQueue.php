<?php
/** The queue in the table `stockhold_queue`. */
declare(strict_types=1);

namespace Stockhold\Reservation\Model;

use Magento\Framework\App\ResourceConnection;
use Magento\Framework\DB\Adapter\AdapterInterface;
use Stockhold\Reservation\Client\Clock;
use Stockhold\Reservation\Sale\OrderKey;
use Stockhold\Reservation\Sale\Queue;
use Stockhold\Reservation\Sale\QueueEntry;

final class DbQueue implements Queue
{
    private const RESOURCE = 'sales';
    private const LONGEST_ERROR = 1000;

    public function __construct(
        private readonly ResourceConnection $resource,
        private readonly Clock $clock
    ) {
    }

    public function add(OrderKey $order, string $kind, string $key, array $body, float $dueAt): int
    {
        $connection = $this->connection();
        $connection->insert($this->table(), [
            'increment_id' => $order->incrementId,
            'store_id' => $order->storeId,
            'kind' => $kind,
            'idempotency_key' => $key,
            'body' => json_encode($body, JSON_THROW_ON_ERROR),
            'attempts' => 0,
            'due_at' => (int)$dueAt,
            'created_at' => (int)$this->clock->now(),
        ]);
        return (int)$connection->lastInsertId($this->table());
    }

    public function has(OrderKey $order): bool
    {
        $id = $this->connection()->fetchOne(
            "SELECT entry_id FROM {$this->table()} WHERE increment_id = :increment_id AND store_id = :store_id LIMIT 1",
            ['increment_id' => $order->incrementId, 'store_id' => $order->storeId]
        );
        return $id !== false && $id !== null;
    }

    public function due(float $now, int $limit): array
    {
        $rows = $this->connection()->fetchAll(
            "SELECT entry.* FROM {$this->table()} entry WHERE entry.due_at <= :now AND NOT EXISTS ("
            . "SELECT 1 FROM {$this->table()} older WHERE older.increment_id = entry.increment_id"
            . ' AND older.store_id = entry.store_id AND older.entry_id < entry.entry_id'
            . ") ORDER BY entry.entry_id LIMIT {$limit}",
            ['now' => (int)$now]
        );
        return array_map($this->entry(...), $rows);
    }

    public function postpone(int $entryId, float $dueAt, string $error): void
    {
        $this->connection()->update(
            $this->table(),
            [
                'due_at' => (int)$dueAt,
                'attempts' => new \Magento\Framework\DB\Sql\Expression('attempts + 1'),
                'last_error' => mb_substr($error, 0, self::LONGEST_ERROR),
            ],
            ['entry_id = ?' => $entryId]
        );
    }

    public function remove(int $entryId): void
    {
        $this->connection()->delete($this->table(), ['entry_id = ?' => $entryId]);
    }

    /** @param array<string, mixed> $row */
    private function entry(array $row): QueueEntry
    {
        return new QueueEntry(
            (int)$row['entry_id'],
            new OrderKey((string)$row['increment_id'], (int)$row['store_id']),
            (string)$row['kind'],
            (string)$row['idempotency_key'],
            (array)json_decode((string)$row['body'], true, 16, JSON_THROW_ON_ERROR),
            (int)$row['attempts'],
            (float)$row['created_at']
        );
    }

    private function connection(): AdapterInterface
    {
        return $this->resource->getConnection(self::RESOURCE);
    }

    private function table(): string
    {
        return $this->resource->getTableName('stockhold_queue', self::RESOURCE);
    }
}
