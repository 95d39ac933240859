<?php
/** Stockhold is away, its answers are lost, or the shop's process dies: no unit is sold twice, and no sale is lost. */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\EndToEnd;

use Magento\Framework\Exception\LocalizedException;
use Magento\Quote\Model\Quote;
use Stockhold\Reservation\Hold\Buyer;
use Stockhold\Reservation\Hold\Lines;
use Stockhold\Reservation\Hold\SettingsSource;
use Stockhold\Reservation\Hold\Terms;
use Stockhold\Reservation\Sale\OrderKey;
use Stockhold\Reservation\Sale\Sales;
use Stockhold\Reservation\Test\Support\LossyProxy;
use Stockhold\Reservation\Test\Support\Shop;

final class OutageTest extends ShopTestCase
{
    private const AWAY = 'The stock can\'t be checked at the moment. Please try again in a minute.';

    public function testLargerCartsAndOrdersAreRefused(): void
    {
        $sku = $this->item(5);
        $cart = $this->shop->cart();
        $line = $this->shop->add($cart, $sku, 2);
        $this->shop->save($cart);
        $this->shop->config->set('connection/url', $this->deadAddress());
        $line->setQty(1);
        self::assertFalse($line->getHasError(), 'A smaller line needs no units.');
        $line->setQty(3);
        self::assertSame(self::AWAY, $line->getMessage());
        $this->shop->save($cart);
        $isPaid = false;
        try {
            $this->shop->place($cart, static function () use (&$isPaid): void {
                $isPaid = true;
            });
            self::fail('The order was placed.');
        } catch (LocalizedException $error) {
            self::assertSame(self::AWAY, $error->getMessage());
        }
        self::assertFalse($isPaid);
        self::assertSame([], $this->shop->database->rows('stockhold_queue'));
        $this->assertHeld(2, 0, $sku);
    }

    public function testOrdersAreSoldByMsiAloneAndBookedLater(): void
    {
        $held = $this->item(10, 'held');
        $new = $this->item(10, 'new');
        $this->shop->config->set('connection/on_outage', 'msi');
        $cart = $this->shop->cart();
        $this->shop->add($cart, $held, 2);
        $this->shop->save($cart);
        $this->shop->config->set('connection/url', $this->deadAddress());
        // The cart changes, and is not the one that is held.
        $line = $this->shop->add($cart, $new, 4);
        self::assertFalse($line->getHasError());
        $this->shop->save($cart);
        $order = $this->shop->place($cart);
        self::assertSame('queued', $this->shop->database->rows('sales_order')[0]['stockhold_state']);
        $this->shop->ship($order, [1 => 1.0]);
        $this->shop->cancel($order);
        self::assertCount(3, $this->shop->database->rows('stockhold_queue'));
        $this->shop->runCron();
        self::assertCount(3, $this->shop->database->rows('stockhold_queue'));
        $this->assertHeld(2, 0, $held);
        $this->shop->config->set('connection/url', $this->server);
        $this->shop->clock->ahead += 120;
        $this->shop->runCron();
        self::assertSame([], $this->shop->database->rows('stockhold_queue'));
        self::assertSame('booked', $this->shop->database->rows('sales_order')[0]['stockhold_state']);
        $this->assertItem(['held_units' => 0, 'confirmed_sold' => 0, 'available' => 10], $held);
        $this->assertItem(['held_units' => 0, 'confirmed_sold' => 1, 'fulfilled_units' => 1], $new);
    }

    public function testAnOldHoldThatExpiredMeanwhileIsNotSoldInPlaceOfTheOrder(): void
    {
        $sku = $this->item(10);
        $this->shop->config->set('connection/on_outage', 'msi');
        $this->shop->config->set('holds/ttl_seconds', '1');
        $cart = $this->shop->cart();
        $line = $this->shop->add($cart, $sku, 2);
        $this->shop->save($cart);
        $this->shop->config->set('connection/url', $this->deadAddress());
        $line->setQty(3);
        $this->shop->place($cart);
        sleep(2);
        $this->shop->config->set('connection/url', $this->server);
        $this->shop->runCron();
        $this->assertHeld(0, 3, $sku);
        self::assertSame('booked', $this->shop->database->rows('sales_order')[0]['stockhold_state']);
    }

    public function testAnOrderWithoutAnyHoldIsBookedLater(): void
    {
        $sku = $this->item(5);
        $this->shop->config->set('connection/on_outage', 'msi');
        $this->shop->config->set('connection/url', $this->deadAddress());
        $cart = $this->shop->cart(customerId: 8);
        $this->shop->add($cart, $sku, 3);
        $this->shop->save($cart);
        $this->shop->place($cart);
        $this->shop->config->set('connection/url', $this->server);
        $this->shop->runCron();
        $this->shop->runCron();
        $this->assertHeld(0, 3, $sku);
        $id = $this->shop->database->rows('sales_order_item')[0]['stockhold_reservation_id'];
        self::assertSame('customer-8', $this->reservation($id)['customer_id']);
    }

    public function testAConfirmThatCanNotBeSentIsBookedLater(): void
    {
        $sku = $this->item(5);
        $proxy = new LossyProxy($this->server, losesAnswers: false);
        $this->shop->config->set('connection/url', $proxy->url);
        $cart = $this->shop->cart();
        $this->shop->add($cart, $sku, 3);
        $this->shop->save($cart);
        $order = $this->shop->place($cart, $proxy->stop(...));
        self::assertSame('queued', $order->getData('stockhold_state'));
        $this->assertHeld(3, 0, $sku);
        $this->shop->config->set('connection/url', $this->server);
        $this->shop->runCron();
        $this->assertHeld(0, 3, $sku);
        self::assertSame([], $this->shop->database->rows('stockhold_queue'));
    }

    public function testALaterCommandOfAnOrderWaitsBehindTheEarlierOnes(): void
    {
        $sku = $this->item(5);
        $cart = $this->shop->cart();
        $this->shop->add($cart, $sku, 4);
        $order = $this->shop->place($cart);
        $this->shop->config->set('connection/url', $this->deadAddress());
        $this->shop->ship($order, [0 => 2.0]);
        $this->shop->config->set('connection/url', $this->server);
        $this->shop->refund($order, [0 => [1.0, true]]);
        self::assertSame(['fulfil', 'return'], array_column($this->shop->database->rows('stockhold_queue'), 'kind'));
        $this->assertItem(['confirmed_sold' => 4, 'fulfilled_units' => 0], $sku);
        $this->shop->runCron();
        self::assertSame([], $this->shop->database->rows('stockhold_queue'));
        $this->assertItem(['confirmed_sold' => 3, 'fulfilled_units' => 2], $sku);
    }

    public function testAnswersThatAreLostChangeNothingTwice(): void
    {
        $proxy = new LossyProxy($this->server);
        try {
            $sku = $this->item(100);
            $shop = new Shop($proxy->url);
            for ($number = 0; $number < 5; ++$number) {
                $cart = $shop->cart();
                $line = $shop->add($cart, $sku, 2);
                $shop->save($cart);
                $line->setQty(3);
                $shop->save($cart);
                $order = $shop->place($cart);
                self::assertSame('booked', $order->getData('stockhold_state'), $shop->logger->text('critical'));
                $shop->ship($order, [0 => 1.0]);
                $shop->refund($order, [0 => [2.0, true]]);
            }
            $failed = $shop->cart();
            $shop->add($failed, $sku, 4);
            try {
                $shop->place($failed, static fn () => throw new \DomainException('declined'));
                self::fail('The order was placed.');
            } catch (\DomainException) {
                $this->assertItem(['held_units' => 0, 'confirmed_sold' => 5, 'fulfilled_units' => 5, 'total_units' => 100], $sku);
            }
            self::assertSame([], $shop->database->rows('stockhold_queue'));
        } finally {
            $proxy->stop();
        }
    }

    public function testAProcessThatDiesAfterTheOrderWasSavedLosesNoSale(): void
    {
        $sku = $this->item(5);
        $order = $this->begun($this->shop->cart(), $sku, 2);
        $this->shop->database->insert('sales_order', [
            'increment_id' => $order->incrementId, 'store_id' => $order->storeId, 'stockhold_state' => 'queued',
        ]);
        $this->shop->runCron();
        $this->assertHeld(2, 0, $sku);
        $this->shop->clock->ahead += 301;
        $this->shop->runCron();
        $this->assertHeld(0, 2, $sku);
        self::assertSame('booked', $this->shop->database->rows('sales_order')[0]['stockhold_state']);
    }

    public function testAProcessThatDiesBeforeTheOrderWasSavedSellsNothing(): void
    {
        $sku = $this->item(5);
        $this->begun($this->shop->cart(), $sku, 2);
        $this->shop->clock->ahead += 301;
        $this->shop->runCron();
        $this->assertHeld(2, 0, $sku);
        $this->shop->clock->ahead += 3_600;
        $this->shop->runCron();
        $this->assertHeld(0, 0, $sku);
        self::assertSame([], $this->shop->database->rows('stockhold_queue'));
    }

    public function testABuyerWhoseFirstAttemptDiedCanTryAgainWithAnotherCart(): void
    {
        $sku = $this->item(5);
        $cart = $this->shop->cart();
        $this->begun($cart, $sku, 2);
        $this->assertItem(['held_under_payment' => 2], $sku);
        $this->shop->add($cart, $sku, 3);
        $this->shop->save($cart);
        $this->assertItem(['held_units' => 3, 'held_under_payment' => 0], $sku);
        $this->shop->place($cart);
        $this->assertHeld(0, 3, $sku);
        // What is left of the first attempt does no harm.
        $this->shop->clock->ahead += 3_901;
        $this->shop->runCron();
        self::assertSame([], $this->shop->database->rows('stockhold_queue'));
        $this->assertHeld(0, 3, $sku);
    }

    /** An order whose process died after its payment window was opened. */
    private function begun(Quote $cart, string $sku, int $quantity): OrderKey
    {
        $settings = $this->shop->container->get(SettingsSource::class)->ofStore(1);
        $order = new OrderKey('T' . bin2hex(random_bytes(6)), 1);
        $buyer = new Buyer((int)$cart->getId(), null, new Terms());
        $this->shop->container->get(Sales::class)->begin($settings, $buyer, Lines::of([$sku => $quantity]), $order);
        return $order;
    }
}
