<?php
/** Writes the held SKU and all its units to the line of the order: the line itself may have another SKU, or count by its parent. */
declare(strict_types=1);

namespace Stockhold\Reservation\Plugin;

use Magento\Quote\Model\Quote\Item\AbstractItem;
use Magento\Quote\Model\Quote\Item\ToOrderItem;
use Magento\Sales\Api\Data\OrderItemInterface;
use Magento\Sales\Model\Order\Item as OrderItem;
use Stockhold\Reservation\Hold\SettingsSource;
use Stockhold\Reservation\Model\CartLines;
use Stockhold\Reservation\Model\DbOrderRecords;

final class StoreSku
{
    public function __construct(
        private readonly SettingsSource $settings,
        private readonly CartLines $cartLines
    ) {
    }

    public function afterConvert(ToOrderItem $subject, OrderItemInterface $result, AbstractItem $item): OrderItemInterface
    {
        $settings = $this->settings->ofStore((int)$item->getQuote()->getStoreId());
        $sku = $settings->isEnabled ? $this->cartLines->heldSku($item, $settings) : null;
        if ($result instanceof OrderItem && $sku !== null) {
            $result->setData(DbOrderRecords::SKU, $sku);
            $result->setData(DbOrderRecords::QUANTITY, $this->cartLines->units($item));
        }
        return $result;
    }
}
