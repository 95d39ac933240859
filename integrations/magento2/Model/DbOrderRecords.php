<?php
/** What orders remember of Stockhold, in columns of `sales_order`, `sales_order_item` and `sales_creditmemo`. */
declare(strict_types=1);

namespace Stockhold\Reservation\Model;

use Magento\Framework\App\ResourceConnection;
use Magento\Framework\DB\Adapter\AdapterInterface;
use Stockhold\Reservation\Sale\OrderKey;
use Stockhold\Reservation\Sale\OrderRecords;

final class DbOrderRecords implements OrderRecords
{
    /** Columns of `sales_order` and `sales_creditmemo`. */
    public const STATE = 'stockhold_state';
    public const CREDITMEMO_BOOKED = 'stockhold_booked';
    /** Columns of `sales_order_item`. */
    public const RESERVATION_ID = 'stockhold_reservation_id';
    public const SKU = 'stockhold_sku';
    public const QUANTITY = 'stockhold_qty';
    public const SHIPPED = 'stockhold_shipped';
    public const CANCELLED = 'stockhold_cancelled';
    public const REFUNDED_UNSHIPPED = 'stockhold_refunded_unshipped';
    private const RESOURCE = 'sales';

    public function __construct(private readonly ResourceConnection $resource)
    {
    }

    public function exists(OrderKey $order): bool
    {
        return $this->row($order) !== null;
    }

    public function state(OrderKey $order): ?string
    {
        $state = $this->row($order)[self::STATE] ?? null;
        return $state === null ? null : (string)$state;
    }

    public function reservationId(OrderKey $order): ?string
    {
        $row = $this->row($order);
        if ($row === null || $row[self::STATE] !== self::BOOKED) {
            return null;
        }
        $id = $this->connection()->fetchOne(
            'SELECT ' . self::RESERVATION_ID . " FROM {$this->table('sales_order_item')} WHERE order_id = :order_id AND "
            . self::RESERVATION_ID . ' IS NOT NULL LIMIT 1',
            ['order_id' => $row['entity_id']]
        );
        return is_string($id) ? $id : null;
    }

    public function book(OrderKey $order, string $reservationId): void
    {
        $row = $this->row($order) ?? throw new \RuntimeException("There is no order {$order->incrementId} to book");
        $this->connection()->update(
            $this->table('sales_order_item'),
            [self::RESERVATION_ID => $reservationId],
            ['order_id = ?' => $row['entity_id'], self::SKU . ' IS NOT NULL']
        );
        $this->mark($order, self::BOOKED);
    }

    public function mark(OrderKey $order, string $state): void
    {
        $this->connection()->update(
            $this->table('sales_order'),
            [self::STATE => $state],
            ['increment_id = ?' => $order->incrementId, 'store_id = ?' => $order->storeId]
        );
    }

    public function setCount(int $orderItemId, string $column, int $units): void
    {
        $this->connection()->update($this->table('sales_order_item'), [$column => $units], ['item_id = ?' => $orderItemId]);
    }

    public function setCreditmemoBooked(int $creditmemoId): void
    {
        $table = $this->table('sales_creditmemo');
        $this->connection()->update($table, [self::CREDITMEMO_BOOKED => 1], ['entity_id = ?' => $creditmemoId]);
    }

    /** @return array<string, mixed>|null */
    private function row(OrderKey $order): ?array
    {
        $row = $this->connection()->fetchRow(
            'SELECT entity_id, ' . self::STATE . " FROM {$this->table('sales_order')}"
            . ' WHERE increment_id = :increment_id AND store_id = :store_id',
            ['increment_id' => $order->incrementId, 'store_id' => $order->storeId]
        );
        return is_array($row) ? $row : null;
    }

    private function connection(): AdapterInterface
    {
        return $this->resource->getConnection(self::RESOURCE);
    }

    private function table(string $name): string
    {
        return $this->resource->getTableName($name, self::RESOURCE);
    }
}
