<?php
/** Stand-in of the shop's database: rows in memory, and the forms of statements that the module uses. */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\Support;

use Magento\Framework\DB\Adapter\AdapterInterface;
use Magento\Framework\DB\Sql\Expression;

final class MemoryDatabase implements AdapterInterface
{
    /** The primary key of each table. */
    private const KEYS = [
        'quote' => 'entity_id',
        'sales_order' => 'entity_id',
        'sales_order_item' => 'item_id',
        'sales_creditmemo' => 'entity_id',
        'stockhold_queue' => 'entry_id',
    ];

    /** @var array<string, list<array<string, mixed>>> */
    private array $tables = [];
    private int $lastId = 0;

    public function insert($table, array $bind)
    {
        $key = self::KEYS[$table];
        $bind[$key] ??= ++$this->lastId;
        $this->lastId = max($this->lastId, (int)$bind[$key]);
        $this->tables[$table][] = $bind;
        return 1;
    }

    public function update($table, array $bind, $where = '')
    {
        $changed = 0;
        foreach ($this->tables[$table] ?? [] as $index => $row) {
            if (!$this->matches($row, $where)) {
                continue;
            }
            $values = [];
            foreach ($bind as $column => $value) {
                $values[$column] = $value instanceof Expression ? $this->sum($row, (string)$value) : $value;
            }
            // As MySQL does, rows that have the values already do not count.
            $changed += array_intersect_key($row, $values) === $values ? 0 : 1;
            $this->tables[$table][$index] = $values + $row;
        }
        return $changed;
    }

    public function delete($table, $where = '')
    {
        $isKept = fn (array $row): bool => !$this->matches($row, $where);
        $this->tables[$table] = array_values(array_filter($this->tables[$table] ?? [], $isKept));
        return 1;
    }

    public function lastInsertId($tableName = null, $primaryKey = null)
    {
        return $this->lastId;
    }

    public function fetchAll($sql, $bind = [], $fetchMode = null)
    {
        return str_contains($sql, 'NOT EXISTS') ? $this->oldestDue($sql, $bind) : $this->select($sql, $bind);
    }

    public function fetchRow($sql, $bind = [], $fetchMode = null)
    {
        return $this->select($sql, $bind)[0] ?? false;
    }

    public function fetchOne($sql, $bind = [])
    {
        $row = $this->fetchRow($sql, $bind);
        return $row === false ? false : reset($row);
    }

    /** @return list<array<string, mixed>> */
    public function rows(string $table): array
    {
        return $this->tables[$table] ?? [];
    }

    /** @return list<array<string, mixed>> */
    private function select(string $sql, array $bind): array
    {
        if (preg_match('/^SELECT (.+) FROM (\w+) WHERE (.+?)( LIMIT \d+)?$/', $sql, $parts) !== 1) {
            throw new \LogicException("This database does not know: {$sql}");
        }
        $conditions = [];
        foreach (explode(' AND ', $parts[3]) as $condition) {
            if (preg_match('/^(\w+) = :(\w+)$/', $condition, $found) === 1) {
                $conditions["{$found[1]} = ?"] = $bind[$found[2]];
            } else {
                $conditions[] = $condition;
            }
        }
        $columns = array_flip(explode(', ', $parts[1]));
        $rows = array_filter($this->rows($parts[2]), fn (array $row): bool => $this->matches($row, $conditions));
        $empty = array_fill_keys(array_keys($columns), null);
        return array_values(array_map(static fn (array $row): array => array_replace($empty, array_intersect_key($row, $columns)), $rows));
    }

    /** @return list<array<string, mixed>> */
    private function oldestDue(string $sql, array $bind): array
    {
        $conditions = [
            'entry.due_at <= :now',
            'older.increment_id = entry.increment_id AND older.store_id = entry.store_id AND older.entry_id < entry.entry_id',
        ];
        foreach ($conditions as $condition) {
            if (!str_contains($sql, $condition)) {
                throw new \LogicException("This database does not know: {$sql}");
            }
        }
        $oldest = [];
        foreach ($this->rows('stockhold_queue') as $row) {
            $oldest[$row['increment_id'] . '/' . $row['store_id']] ??= $row;
        }
        return array_values(array_filter($oldest, static fn (array $row): bool => $row['due_at'] <= $bind['now']));
    }

    private function matches(array $row, array $where): bool
    {
        foreach ($where as $condition => $value) {
            $isMet = match (true) {
                is_string($condition) && preg_match('/^(\w+) = \?$/', $condition, $found) === 1 => ($row[$found[1]] ?? null) == $value,
                preg_match('/^(\w+) IS NULL$/', (string)$value, $found) === 1 => ($row[$found[1]] ?? null) === null,
                preg_match('/^(\w+) IS NOT NULL$/', (string)$value, $found) === 1 => ($row[$found[1]] ?? null) !== null,
                default => throw new \LogicException("This database does not know: {$condition} {$value}"),
            };
            if (!$isMet) {
                return false;
            }
        }
        return true;
    }

    private function sum(array $row, string $expression): int
    {
        if (preg_match('/^(\w+) \+ (\d+)$/', $expression, $found) !== 1) {
            throw new \LogicException("This database does not know: {$expression}");
        }
        return (int)$row[$found[1]] + (int)$found[2];
    }
}
