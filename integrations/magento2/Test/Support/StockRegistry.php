<?php
/** Stock settings of products: managed, unless the id of the product is one of those below. */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\Support;

use Magento\CatalogInventory\Api\Data\StockItemInterface;
use Magento\CatalogInventory\Api\StockRegistryInterface;

final class StockRegistry implements StockRegistryInterface
{
    public const NOT_MANAGED = 7001;
    public const SOLD_IN_FRACTIONS = 7002;

    public function getStockItem($productId, $scopeId = null)
    {
        return new class ($productId) implements StockItemInterface {
            public function __construct(private int $productId)
            {
            }

            public function getManageStock()
            {
                return $this->productId !== StockRegistry::NOT_MANAGED;
            }

            public function getIsQtyDecimal()
            {
                return $this->productId === StockRegistry::SOLD_IN_FRACTIONS;
            }
        };
    }
}
