<?php
/**
 * A small shop around the module: it keeps carts and orders in a database in memory, and dispatches the events and calls the plugins
 * that Magento does, in Magento's order.
 */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\Support;

use Magento\Catalog\Model\Product;
use Magento\Quote\Model\Quote;
use Magento\Quote\Model\Quote\Item as CartItem;
use Magento\Quote\Model\Quote\Item\ToOrderItem;
use Magento\Sales\Api\Data\OrderInterface;
use Magento\Sales\Api\OrderManagementInterface;
use Magento\Sales\Model\Order;
use Magento\Sales\Model\Order\Creditmemo;
use Magento\Sales\Model\Order\Item as OrderItem;
use Magento\Sales\Model\Order\Shipment;
use Stockhold\Reservation\Client\Clock;
use Stockhold\Reservation\Cron\SendQueue;

final class Shop
{
    public readonly MemoryDatabase $database;
    public readonly MemoryLogger $logger;
    public readonly TestClock $clock;
    public readonly Config $config;
    public readonly Container $container;
    /** @var array<int, Quote> */
    private array $carts = [];
    private static int $lastId = 0;

    /** @param array<string, string> $config settings by path below `stockhold/` */
    public function __construct(string $url, array $config = [])
    {
        $this->database = new MemoryDatabase();
        $this->logger = new MemoryLogger();
        $this->clock = new TestClock();
        $this->config = new Config($config + ['connection/url' => $url]);
        $this->container = new Container([
            \Magento\Framework\App\ResourceConnection::class => new \Magento\Framework\App\ResourceConnection($this->database),
            \Magento\Framework\App\Config\ScopeConfigInterface::class => $this->config,
            \Magento\Framework\Encryption\EncryptorInterface::class => new Encryptor(),
            \Magento\Framework\App\CacheInterface::class => new MemoryCache(),
            \Magento\CatalogInventory\Api\StockRegistryInterface::class => new StockRegistry(),
            \Magento\Quote\Api\CartRepositoryInterface::class => new Carts($this->carts),
            \Psr\Log\LoggerInterface::class => $this->logger,
            Clock::class => $this->clock,
        ]);
    }

    public function cart(?int $customerId = null, int $groupId = 0): Quote
    {
        $cart = new Quote([
            'entity_id' => $this->newId(),
            'store_id' => 1,
            'is_active' => 1,
            'customer_id' => $customerId,
            'customer_group_id' => $groupId,
        ]);
        $cart->dispatch = fn (string $event, array $data) => $this->container->dispatch($event, $data);
        $this->carts[(int)$cart->getId()] = $cart;
        $this->database->insert('quote', ['entity_id' => $cart->getId()]);
        return $cart;
    }

    /** @param array<string, mixed> $product members of the product besides its SKU */
    public function add(Quote $cart, string $sku, float $quantity, array $product = [], ?CartItem $parent = null): CartItem
    {
        $id = $product['entity_id'] ?? crc32($sku);
        $item = new CartItem(['item_id' => $this->newId(), 'product' => new Product($product + ['entity_id' => $id, 'sku' => $sku])]);
        if ($parent !== null) {
            $item->setParentItem($parent);
        }
        $cart->addItem($item);
        $item->setQty($quantity);
        return $item;
    }

    public function save(Quote $cart): void
    {
        $this->container->dispatch('sales_quote_save_commit_after', ['quote' => $cart]);
    }

    /** @param callable(Order): void|null $meanwhile what happens while the order is paid; it may throw */
    public function place(Quote $cart, ?callable $meanwhile = null, ?string $incrementId = null): Order
    {
        $order = $this->order($cart, $incrementId ?? 'T' . bin2hex(random_bytes(6)));
        $proceed = function (OrderInterface $order) use ($meanwhile): OrderInterface {
            if ($meanwhile !== null) {
                $meanwhile($order);
            }
            return $this->saveOrder($order);
        };
        try {
            $management = new class implements OrderManagementInterface {
                public function place(OrderInterface $order)
                {
                    return $order;
                }
            };
            $order = $this->container->plugin(OrderManagementInterface::class)->aroundPlace($management, $proceed, $order);
        } catch (\Throwable $error) {
            $this->container->dispatch('sales_model_service_quote_submit_failure', ['order' => $order, 'quote' => $cart]);
            throw $error;
        }
        $cart->setData('is_active', 0);
        $this->save($cart);
        return $order;
    }

    /** Cancels what was neither shipped nor invoiced. */
    public function cancel(Order $order): void
    {
        foreach ($order->getAllItems() as $item) {
            $this->container->dispatch('sales_order_item_cancel', ['item' => $item]);
        }
        foreach ($order->getAllItems() as $item) {
            $left = $item->getData('qty_ordered') - max((float)$item->getQtyShipped(), (float)$item->getQtyInvoiced());
            $item->setData('qty_canceled', $left);
        }
        $this->container->dispatch('sales_order_save_commit_after', ['order' => $order]);
    }

    /** @param array<int, float> $quantities by index of the item */
    public function ship(Order $order, array $quantities): Shipment
    {
        foreach ($quantities as $index => $quantity) {
            $item = $order->getAllItems()[$index];
            $item->setData('qty_shipped', (float)$item->getQtyShipped() + $quantity);
        }
        $shipment = new Shipment(['entity_id' => $this->newId(), 'order' => $order, 'increment_id' => 'S' . $this->newId()]);
        $this->saveShipment($shipment);
        return $shipment;
    }

    public function saveShipment(Shipment $shipment): void
    {
        $this->container->dispatch('sales_order_shipment_save_commit_after', ['shipment' => $shipment]);
    }

    /** @param array<int, array{float, bool}> $rows quantity and "return to stock" by index of the item */
    public function refund(Order $order, array $rows): Creditmemo
    {
        $items = [];
        foreach ($rows as $index => [$quantity, $isBackToStock]) {
            $item = $order->getAllItems()[$index];
            $item->setData('qty_invoiced', max((float)$item->getQtyInvoiced(), (float)$item->getQtyRefunded() + $quantity));
            $item->setData('qty_refunded', (float)$item->getQtyRefunded() + $quantity);
            $items[] = new \Magento\Framework\DataObject(
                ['order_item_id' => $item->getId(), 'qty' => $quantity, 'back_to_stock' => $isBackToStock]
            );
        }
        $id = $this->newId();
        $creditmemo = new Creditmemo(['entity_id' => $id, 'order' => $order, 'increment_id' => "C{$id}", 'items' => $items]);
        $this->database->insert('sales_creditmemo', ['entity_id' => $id]);
        $this->saveCreditmemo($creditmemo);
        return $creditmemo;
    }

    public function saveCreditmemo(Creditmemo $creditmemo): void
    {
        $this->container->dispatch('sales_order_creditmemo_save_commit_after', ['creditmemo' => $creditmemo]);
    }

    public function runCron(): void
    {
        $this->container->get(SendQueue::class)->execute();
    }

    private function order(Quote $cart, string $incrementId): Order
    {
        $order = new Order([
            'increment_id' => $incrementId,
            'store_id' => $cart->getStoreId(),
            'quote_id' => $cart->getId(),
            'customer_id' => $cart->getCustomerId(),
            'customer_group_id' => $cart->getCustomerGroupId(),
        ]);
        $converted = new \SplObjectStorage();
        $convert = $this->container->plugin(ToOrderItem::class);
        foreach ($cart->getAllItems() as $item) {
            $orderItem = new OrderItem(['item_id' => $this->newId(), 'qty_ordered' => $item->getTotalQty()]);
            foreach (['ship_separately', 'children_calculated'] as $member) {
                $orderItem->setData($member, $item->getProduct()->getData($member));
            }
            $converted[$item] = $convert->afterConvert(new ToOrderItem(), $orderItem, $item);
            if ($item->getParentItem() !== null) {
                $orderItem->setParentItem($converted[$item->getParentItem()]);
            }
            $order->addItem($orderItem);
        }
        return $order;
    }

    private function saveOrder(OrderInterface $order): OrderInterface
    {
        $order->setData('entity_id', $this->newId());
        $this->database->insert('sales_order', $order->getData());
        foreach ($order->getAllItems() as $item) {
            $this->database->insert('sales_order_item', [
                'item_id' => $item->getId(),
                'order_id' => $order->getId(),
                'stockhold_sku' => $item->getData('stockhold_sku'),
                'stockhold_reservation_id' => $item->getData('stockhold_reservation_id'),
            ]);
        }
        return $order;
    }

    private function newId(): int
    {
        // Beyond those of other runs against the same server: an owner is named after the quote.
        self::$lastId = self::$lastId === 0 ? random_int(1_000_000, 1_000_000_000) : self::$lastId + 1;
        return self::$lastId;
    }
}
