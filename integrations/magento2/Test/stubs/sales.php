<?php
/** Stand-ins of Magento's orders and their documents: the members that the module uses. For tests only. */
declare(strict_types=1);

namespace Magento\Sales\Api\Data {
    interface OrderInterface
    {
    }

    interface OrderItemInterface
    {
    }
}

namespace Magento\Sales\Api {
    interface OrderManagementInterface
    {
        public function place(\Magento\Sales\Api\Data\OrderInterface $order);
    }

    interface PaymentFailuresInterface
    {
        public function handle(
            int $cartId,
            string $errorMessage,
            string $checkoutType = 'onepage'
        ): PaymentFailuresInterface;
    }
}

namespace Magento\Sales\Model {
    class Order extends \Magento\Framework\DataObject implements \Magento\Sales\Api\Data\OrderInterface
    {
        /** @var list<Order\Item> */
        private array $items = [];

        public function addItem(Order\Item $item)
        {
            $this->items[] = $item;
            $item->setOrder($this);
            return $this;
        }

        public function getAllItems()
        {
            return $this->items;
        }

        public function getItemById($itemId)
        {
            foreach ($this->items as $item) {
                if ($item->getId() === $itemId) {
                    return $item;
                }
            }
            return null;
        }
    }
}

namespace Magento\Sales\Model\Order {
    class Item extends \Magento\Framework\DataObject implements \Magento\Sales\Api\Data\OrderItemInterface
    {
        private ?self $parent = null;
        private bool $hasChildren = false;

        public function getId()
        {
            return $this->getData('item_id');
        }

        public function setParentItem($item)
        {
            $this->parent = $item;
            $item->hasChildren = true;
            return $this;
        }

        public function getParentItem()
        {
            return $this->parent;
        }

        public function getParentItemId()
        {
            return $this->parent?->getId();
        }

        public function getHasChildren()
        {
            return $this->hasChildren;
        }

        /** A bundle may be shipped and priced by its children (`ship_separately`, `children_calculated`); else by itself. */
        public function isDummy($shipment = false)
        {
            $owner = $this->parent ?? $this;
            $byChildren = (bool)$owner->getData($shipment ? 'ship_separately' : 'children_calculated');
            if ($this->hasChildren) {
                return $byChildren;
            }
            return $this->parent !== null && !$byChildren;
        }
    }

    class Shipment extends \Magento\Framework\DataObject
    {
    }

    class Creditmemo extends \Magento\Framework\DataObject
    {
        public function getAllItems()
        {
            return $this->getData('items');
        }
    }
}
