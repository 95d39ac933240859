<?php
/**
 * What of a cart Stockhold holds: its simple products. A configurable product or a bundle counts by its children and never by itself,
 * and a grouped product is in a cart as its simple products anyway. Virtual products, products without managed stock, products that
 * are sold in fractions and SKUs that the settings leave out are not held.
 */
declare(strict_types=1);

namespace Stockhold\Reservation\Model;

use Magento\CatalogInventory\Api\StockRegistryInterface;
use Magento\Quote\Model\Quote;
use Magento\Quote\Model\Quote\Item\AbstractItem;
use Stockhold\Reservation\Hold\Lines;
use Stockhold\Reservation\Hold\Settings;

class CartLines
{
    public function __construct(private readonly StockRegistryInterface $stock)
    {
    }

    public function ofQuote(Quote $quote, Settings $settings): Lines
    {
        $lines = Lines::none();
        foreach ($quote->getAllItems() as $item) {
            $sku = $this->heldSku($item, $settings);
            if ($sku !== null) {
                $lines = $lines->with($sku, $this->units($item));
            }
        }
        return $lines;
    }

    /** The SKU by which a line is held; null if it is not held. */
    public function heldSku(AbstractItem $item, Settings $settings): ?string
    {
        $product = $item->getProduct();
        if ($product === null || $product->isComposite() || $product->isVirtual()) {
            return null;
        }
        // The SKU of the product itself: that of the item may have those of its options at its end.
        $sku = (string)$product->getData('sku');
        if ($sku === '' || !$settings->appliesTo($sku)) {
            return null;
        }
        $stock = $this->stock->getStockItem((int)$product->getId(), (int)$product->getStore()->getWebsiteId());
        return $stock->getManageStock() && !$stock->getIsQtyDecimal() ? $sku : null;
    }

    /** All units of a line: those of one parent, times the parents. */
    public function units(AbstractItem $item): int
    {
        return (int)round((float)$item->getTotalQty());
    }

    /**
     * The lines that are held for a line that the buyer sees: itself, or its children.
     *
     * @return list<AbstractItem>
     */
    public function leaves(AbstractItem $item): array
    {
        $children = array_values($item->getChildren());
        return $children === [] ? [$item] : $children;
    }
}
