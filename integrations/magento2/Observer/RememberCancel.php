<?php
/** `sales_order_item_cancel`: a line of an order is being cancelled. It is reported when the order was saved, because the save can fail. */
declare(strict_types=1);

namespace Stockhold\Reservation\Observer;

use Magento\Framework\Event\Observer;
use Magento\Framework\Event\ObserverInterface;
use Magento\Sales\Model\Order\Item;
use Stockhold\Reservation\Model\Cancellations;

final class RememberCancel implements ObserverInterface
{
    public function __construct(private readonly Cancellations $cancellations)
    {
    }

    public function execute(Observer $observer): void
    {
        $item = $observer->getEvent()->getData('item');
        if ($item instanceof Item && $item->getOrder() !== null) {
            $this->cancellations->add($item);
        }
    }
}
