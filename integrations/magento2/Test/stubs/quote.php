<?php
/** Stand-ins of Magento's carts, products and checkout: the members that the module uses. For tests only. */
declare(strict_types=1);

namespace Magento\Store\Model {
    class Store extends \Magento\Framework\DataObject
    {
    }
}

namespace Magento\Catalog\Model {
    class Product extends \Magento\Framework\DataObject
    {
        public function isComposite()
        {
            return (bool)$this->getData('composite');
        }

        public function isVirtual()
        {
            return (bool)$this->getData('virtual');
        }

        public function getStore()
        {
            return new \Magento\Store\Model\Store(['website_id' => 1]);
        }
    }
}

namespace Magento\CatalogInventory\Api\Data {
    interface StockItemInterface
    {
        public function getManageStock();
        public function getIsQtyDecimal();
    }
}

namespace Magento\CatalogInventory\Api {
    interface StockRegistryInterface
    {
        public function getStockItem($productId, $scopeId = null);
    }
}

namespace Magento\Quote\Api\Data {
    interface CartInterface
    {
    }

    interface PaymentInterface
    {
    }
}

namespace Magento\Quote\Api {
    interface CartRepositoryInterface
    {
        public function get($cartId, array $sharedStoreIds = []);
    }

    interface PaymentMethodManagementInterface
    {
        public function set($cartId, \Magento\Quote\Api\Data\PaymentInterface $method);
    }
}

namespace Magento\Checkout\Api {
    interface ShippingInformationManagementInterface
    {
        public function saveAddressInformation(
            $cartId,
            \Magento\Checkout\Api\Data\ShippingInformationInterface $addressInformation
        );
    }
}

namespace Magento\Checkout\Api\Data {
    interface ShippingInformationInterface
    {
    }
}

namespace Magento\Checkout\Model {
    class Session extends \Magento\Framework\DataObject
    {
        public function getQuoteId()
        {
            return $this->getData('quote_id');
        }
    }
}

namespace Magento\Quote\Model {
    /** Errors of a cart or of a line, by their origin. */
    trait KeepsErrors
    {
        /** @var list<array{type: string, origin: string, code: int, message: string}> */
        private array $errors = [];

        public function getHasError()
        {
            return $this->errors !== [];
        }

        public function getErrorInfos()
        {
            return $this->errors;
        }

        public function getMessage()
        {
            return implode("\n", array_column($this->errors, 'message'));
        }

        private function keep(string $type, string $origin, int $code, $message): void
        {
            $this->errors[] = ['type' => $type, 'origin' => $origin, 'code' => $code, 'message' => (string)$message];
        }

        private function drop(array $params): void
        {
            $isOther = static fn (array $error): bool => array_intersect_key($error, $params) != $params;
            $this->errors = array_values(array_filter($this->errors, $isOther));
        }
    }

    class Quote extends \Magento\Framework\DataObject implements \Magento\Quote\Api\Data\CartInterface
    {
        use KeepsErrors;

        /** @var list<Quote\Item> */
        private array $items = [];
        public ?\Closure $dispatch = null;

        public function addItem(Quote\Item $item)
        {
            $this->items[] = $item;
            $item->setQuote($this);
            return $this;
        }

        public function removeItem(Quote\Item $item): void
        {
            $this->items = array_values(array_filter($this->items, static fn ($other): bool => $other !== $item));
        }

        public function getAllItems()
        {
            return $this->items;
        }

        public function addErrorInfo($type = 'error', $origin = null, $code = null, $message = null, $additionalData = null)
        {
            $this->keep($type, (string)$origin, (int)$code, $message);
            return $this;
        }

        public function removeErrorInfosByParams($type, $params)
        {
            $this->drop($params);
            return $this;
        }
    }
}

namespace Magento\Quote\Model\Quote\Item {
    abstract class AbstractItem extends \Magento\Framework\DataObject
    {
        private ?\Magento\Quote\Model\Quote\Item $parent = null;
        private array $children = [];

        public function getProduct()
        {
            return $this->getData('product');
        }

        public function getQuote()
        {
            return $this->getData('quote');
        }

        public function setParentItem($parentItem)
        {
            $this->parent = $parentItem;
            $parentItem->children[] = $this;
            return $this;
        }

        public function getParentItem()
        {
            return $this->parent;
        }

        public function getChildren()
        {
            return $this->children;
        }

        public function getHasChildren()
        {
            return $this->children !== [];
        }

        public function getTotalQty()
        {
            return $this->getData('qty') * ($this->parent === null ? 1 : $this->parent->getData('qty'));
        }
    }

    class ToOrderItem
    {
    }
}

namespace Magento\Quote\Model\Quote {
    class Item extends Item\AbstractItem
    {
        use \Magento\Quote\Model\KeepsErrors;

        public function getProductId()
        {
            return $this->getProduct()->getId();
        }

        public function setQty($qty)
        {
            $this->setData('qty', $qty);
            ($this->getQuote()->dispatch)('sales_quote_item_qty_set_after', ['item' => $this]);
            return $this;
        }

        public function addErrorInfo($origin = null, $code = null, $message = null, $additionalData = null)
        {
            $this->keep('error', (string)$origin, (int)$code, $message);
            return $this;
        }

        public function removeErrorInfosByParams($params)
        {
            $this->drop($params);
            return $this;
        }
    }
}
