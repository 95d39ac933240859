<?php
/** Orders sell what is held, once, and their shipments and returns are reported once. */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\EndToEnd;

use Magento\Framework\Exception\LocalizedException;
use Magento\Sales\Api\PaymentFailuresInterface;
use Magento\Sales\Model\Order;

final class OrderTest extends ShopTestCase
{
    public function testAnOrderSellsTheHold(): void
    {
        $sku = $this->item(10);
        $cart = $this->shop->cart(customerId: 3);
        $this->shop->add($cart, $sku, 2);
        $this->shop->save($cart);
        $id = $cart->getData('stockhold_reservation_id');
        $order = $this->shop->place($cart, function () use ($id, $sku): void {
            self::assertSame('open', $this->reservation($id)['payment']['state']);
            $this->assertItem(['held_under_payment' => 2], $sku);
        });
        $this->assertHeld(0, 2, $sku);
        $reservation = $this->reservation($id);
        self::assertSame([$order->getIncrementId(), "order-{$order->getIncrementId()}"], [
            $reservation['order_id'], $reservation['payment']['payment_id'],
        ]);
        self::assertSame([$id, $sku, 2], [
            $this->shop->database->rows('sales_order_item')[0]['stockhold_reservation_id'],
            $order->getAllItems()[0]->getData('stockhold_sku'),
            $order->getAllItems()[0]->getData('stockhold_qty'),
        ]);
        self::assertSame('booked', $this->shop->database->rows('sales_order')[0]['stockhold_state']);
        self::assertSame([], $this->shop->database->rows('stockhold_queue'));
    }

    public function testACartThatWasNeverHeldIsHeldWhenItIsPlaced(): void
    {
        $sku = $this->item(2);
        $cart = $this->shop->cart();
        $this->shop->add($cart, $sku, 2);
        $order = $this->shop->place($cart);
        $this->assertHeld(0, 2, $sku);
        self::assertSame('booked', $order->getData('stockhold_state'));
    }

    public function testAnOrderIsSoldWithoutAPaymentWindowWhereNoneCanBeOpened(): void
    {
        $sku = $this->item(2);
        $this->call('PUT', "/v1/inventory/{$sku}", ['max_payment_seconds' => 1]);
        $cart = $this->shop->cart();
        $this->shop->add($cart, $sku, 2);
        $this->shop->place($cart, fn () => $this->assertItem(['held_units' => 2, 'held_under_payment' => 0], $sku));
        $this->assertHeld(0, 2, $sku);
    }

    public function testAnOrderThatFailsGivesTheUnitsBack(): void
    {
        $sku = $this->item(10);
        $cart = $this->shop->cart();
        $this->shop->add($cart, $sku, 2);
        $this->shop->save($cart);
        $id = $cart->getData('stockhold_reservation_id');
        try {
            $this->shop->place($cart, static fn () => throw new \DomainException('card declined'));
            self::fail('The order was placed.');
        } catch (\DomainException $error) {
            self::assertSame('card declined', $error->getMessage());
        }
        $this->assertHeld(0, 0, $sku);
        $reservation = $this->reservation($id);
        self::assertSame(['cancelled', 'closed'], [$reservation['status'], $reservation['payment']['state']]);
        self::assertSame([], $this->shop->database->rows('stockhold_queue'));
        // The buyer tries again with the same cart and the same reserved number.
        $this->shop->place($cart, null, 'R' . $cart->getId());
        $this->assertHeld(0, 2, $sku);
    }

    public function testAnOrderIsRefusedBeforeItIsPaid(): void
    {
        $sku = $this->item(2);
        $this->shop->config->set('holds/ttl_seconds', '1');
        $cart = $this->shop->cart();
        $this->shop->add($cart, $sku, 2);
        $this->shop->save($cart);
        sleep(2);
        $this->shop->config->set('holds/ttl_seconds', '600');
        $rival = $this->shop->cart();
        $this->shop->add($rival, $sku, 1);
        $this->shop->save($rival);
        $isPaid = false;
        try {
            $this->shop->place($cart, static function () use (&$isPaid): void {
                $isPaid = true;
            });
            self::fail('The order was placed.');
        } catch (LocalizedException $error) {
            self::assertSame("Only 1 of \"{$sku}\" can be in your cart.", $error->getMessage());
        }
        self::assertFalse($isPaid);
        $this->assertHeld(1, 0, $sku);
    }

    public function testALatePayerGetsTheSameUnitsAgain(): void
    {
        $sku = $this->item(2);
        [$order, $id] = $this->placeLate($sku, static fn () => null);
        $this->assertHeld(0, 2, $sku);
        $booked = $order->getAllItems()[0]->getData('stockhold_reservation_id');
        self::assertNotSame($id, $booked);
        self::assertSame($id, $this->reservation($booked)['replaces']);
        self::assertSame($booked, $this->shop->database->rows('sales_order_item')[0]['stockhold_reservation_id']);
    }

    public function testALatePayerWhoseUnitsAreGoneIsFlaggedAndBookedLater(): void
    {
        $sku = $this->item(2);
        [$order] = $this->placeLate($sku, function () use ($sku): void {
            $this->call('POST', "/v1/inventory/{$sku}/reserve", ['owner_id' => 'rival', 'quantity' => 1]);
        });
        self::assertSame('oversold', $this->shop->database->rows('sales_order')[0]['stockhold_state']);
        self::assertStringContainsString("order {$order->getIncrementId()} is sold without stock", $this->shop->logger->text('critical'));
        $this->assertHeld(1, 0, $sku);
        $this->shop->runCron();
        $this->assertHeld(1, 0, $sku);
        $this->call('POST', "/v1/inventory/{$sku}/adjust", ['delta' => 1, 'reason' => 'delivery']);
        $this->shop->clock->ahead += 3_700;
        $this->shop->runCron();
        $this->assertHeld(1, 2, $sku);
        self::assertSame('booked', $this->shop->database->rows('sales_order')[0]['stockhold_state']);
        self::assertSame([], $this->shop->database->rows('stockhold_queue'));
    }

    public function testAFailedPaymentGivesTheUnitsBack(): void
    {
        $sku = $this->item(2);
        $cart = $this->shop->cart();
        $this->shop->add($cart, $sku, 2);
        $this->shop->save($cart);
        $failures = new class implements PaymentFailuresInterface {
            public function handle(int $cartId, string $errorMessage, string $checkoutType = 'onepage'): PaymentFailuresInterface
            {
                return $this;
            }
        };
        $plugin = $this->shop->container->plugin(PaymentFailuresInterface::class);
        self::assertSame($failures, $plugin->afterHandle($failures, $failures, (int)$cart->getId()));
        $this->assertHeld(0, 0, $sku);
        $this->shop->place($cart);
        $this->assertHeld(0, 2, $sku);
    }

    public function testAShipmentIsReportedOnce(): void
    {
        $sku = $this->item(10);
        $order = $this->placed([$sku => 5]);
        $shipment = $this->shop->ship($order, [0 => 2.0]);
        $this->assertItem(['fulfilled_units' => 2, 'on_hand' => 8], $sku);
        $this->shop->saveShipment($shipment);
        $this->assertItem(['fulfilled_units' => 2, 'on_hand' => 8], $sku);
        $this->shop->ship($order, [0 => 3.0]);
        $this->assertItem(['fulfilled_units' => 5, 'on_hand' => 5, 'confirmed_sold' => 5], $sku);
    }

    public function testAPartOfAnOrderIsCancelled(): void
    {
        $sku = $this->item(10);
        $order = $this->placed([$sku => 5]);
        $this->shop->ship($order, [0 => 2.0]);
        $this->shop->cancel($order);
        $this->assertItem(['confirmed_sold' => 2, 'fulfilled_units' => 2, 'available' => 8], $sku);
        $this->shop->container->dispatch('sales_order_save_commit_after', ['order' => $order]);
        $this->shop->cancel($order);
        $this->assertItem(['confirmed_sold' => 2, 'fulfilled_units' => 2, 'available' => 8], $sku);
    }

    public function testACreditMemoReturnsUnitsByWhereTheyAre(): void
    {
        $sku = $this->item(10);
        $order = $this->placed([$sku => 6]);
        $this->shop->ship($order, [0 => 4.0]);
        // Two were never shipped, and one of the shipped ones does not come back: it is written off.
        $creditmemo = $this->shop->refund($order, [0 => [3.0, false]]);
        $figures = ['total_units' => 9, 'confirmed_sold' => 3, 'fulfilled_units' => 3, 'on_hand' => 6, 'available' => 6];
        $this->assertItem($figures, $sku);
        $this->shop->saveCreditmemo($creditmemo);
        $this->assertItem($figures, $sku);
        // Two of the shipped ones come back.
        $this->shop->refund($order, [0 => [2.0, true]]);
        $this->assertItem(
            ['total_units' => 9, 'confirmed_sold' => 1, 'fulfilled_units' => 1, 'on_hand' => 8, 'available' => 8],
            $sku
        );
    }

    public function testParentsNeverCountTwice(): void
    {
        $red = $this->item(10, 'red');
        $screw = $this->item(100, 'screw');
        $cart = $this->shop->cart();
        $shirt = $this->shop->add($cart, $red, 3, ['composite' => true, 'entity_id' => 1]);
        $this->shop->add($cart, $red, 1, [], $shirt);
        $box = $this->shop->add($cart, 'box', 5, ['composite' => true, 'children_calculated' => true]);
        $this->shop->add($cart, $screw, 4, [], $box);
        $order = $this->shop->place($cart);
        $this->assertHeld(0, 3, $red);
        $this->assertHeld(0, 20, $screw);
        // The shirt and the box are shipped as themselves; the box is refunded by its screws.
        $this->shop->ship($order, [0 => 1.0, 2 => 2.0, 3 => 8.0]);
        $this->assertItem(['fulfilled_units' => 1], $red);
        $this->assertItem(['fulfilled_units' => 8], $screw);
        $this->shop->refund($order, [0 => [1.0, true], 2 => [1.0, true], 3 => [4.0, true]]);
        $this->assertItem(['confirmed_sold' => 2, 'fulfilled_units' => 1], $red);
        $this->assertItem(['confirmed_sold' => 16, 'fulfilled_units' => 8], $screw);
        $this->shop->cancel($order);
        $this->assertItem(['confirmed_sold' => 1, 'fulfilled_units' => 1, 'available' => 9], $red);
        $this->assertItem(['confirmed_sold' => 8, 'fulfilled_units' => 8, 'available' => 92], $screw);
    }

    /** @param array<string, int> $lines */
    private function placed(array $lines): Order
    {
        $cart = $this->shop->cart();
        foreach ($lines as $sku => $quantity) {
            $this->shop->add($cart, $sku, $quantity);
        }
        return $this->shop->place($cart);
    }

    /** @return array{Order, string} an order that is paid after the end of its payment window, and its hold */
    private function placeLate(string $sku, callable $meanwhile): array
    {
        $this->shop->config->set('holds/ttl_seconds', '3');
        $this->shop->config->set('holds/payment_window_seconds', '1');
        $cart = $this->shop->cart();
        $this->shop->add($cart, $sku, 2);
        $this->shop->save($cart);
        $id = $cart->getData('stockhold_reservation_id');
        $order = $this->shop->place($cart, static function () use ($meanwhile): void {
            sleep(4);
            $meanwhile();
        });
        return [$order, $id];
    }
}
