<?php
/**
 * Stores holds in columns of the quote. The quote is not saved for this, because a save has observers, and this runs in one of them.
 */
declare(strict_types=1);

namespace Stockhold\Reservation\Model;

use Magento\Framework\App\ResourceConnection;
use Stockhold\Reservation\Hold\Hold;
use Stockhold\Reservation\Hold\HoldStorage;

final class QuoteHolds implements HoldStorage
{
    public const RESERVATION_ID = 'stockhold_reservation_id';
    public const HOLD = 'stockhold_hold';
    private const RESOURCE = 'checkout';

    public function __construct(private readonly ResourceConnection $resource)
    {
    }

    public function find(int $quoteId): ?Hold
    {
        $columns = self::RESERVATION_ID . ', ' . self::HOLD;
        $row = $this->resource->getConnection(self::RESOURCE)->fetchRow(
            "SELECT {$columns} FROM {$this->table()} WHERE entity_id = :quote_id",
            ['quote_id' => $quoteId]
        );
        return is_array($row) ? Hold::fromColumns($row[self::RESERVATION_ID], $row[self::HOLD]) : null;
    }

    public function replace(int $quoteId, ?string $expectedReservationId, ?Hold $hold): bool
    {
        $condition = $expectedReservationId === null
            ? [self::RESERVATION_ID . ' IS NULL']
            : [self::RESERVATION_ID . ' = ?' => $expectedReservationId];
        $changed = $this->resource->getConnection(self::RESOURCE)->update(
            $this->table(),
            [self::RESERVATION_ID => $hold?->reservationId, self::HOLD => $hold?->toJson()],
            ['entity_id = ?' => $quoteId] + $condition
        );
        return (int)$changed > 0;
    }

    private function table(): string
    {
        return $this->resource->getTableName('quote', self::RESOURCE);
    }
}
