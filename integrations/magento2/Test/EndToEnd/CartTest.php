<?php
/** Carts are held as a whole, and change in place. */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\EndToEnd;

use Magento\Checkout\Api\Data\ShippingInformationInterface;
use Magento\Checkout\Api\ShippingInformationManagementInterface;
use Magento\Checkout\Model\Session;
use Magento\Framework\Event\Observer;
use Magento\Framework\Message\ManagerInterface;
use Stockhold\Reservation\Hold\Holds;
use Stockhold\Reservation\Observer\ShowTimeLeft;
use Stockhold\Reservation\Test\Support\StockRegistry;

final class CartTest extends ShopTestCase
{
    public function testItGrowsAndShrinksInPlace(): void
    {
        $sku = $this->item(10);
        $other = $this->item(10);
        $cart = $this->shop->cart();
        $line = $this->shop->add($cart, $sku, 2);
        $this->shop->save($cart);
        $this->assertHeld(2, 0, $sku);
        $id = $cart->getData('stockhold_reservation_id');
        $line->setQty(7);
        $second = $this->shop->add($cart, $other, 1);
        $this->shop->save($cart);
        $this->assertHeld(7, 0, $sku);
        $this->assertHeld(1, 0, $other);
        $line->setQty(1);
        $cart->removeItem($second);
        $this->shop->save($cart);
        $this->assertHeld(1, 0, $sku);
        $this->assertHeld(0, 0, $other);
        $reservation = $this->reservation($id);
        self::assertSame(['active', "quote-{$cart->getId()}", 3], [
            $reservation['status'], $reservation['owner_id'], $reservation['version'],
        ]);
        self::assertArrayNotHasKey('session_id', $reservation);
        $cart->removeItem($line);
        $this->shop->save($cart);
        self::assertSame('cancelled', $this->reservation($id)['status']);
        self::assertNull($cart->getData('stockhold_reservation_id'));
        $this->assertHeld(0, 0, $sku);
    }

    public function testASaveThatChangesNothingAsksNobody(): void
    {
        $sku = $this->item(10);
        $cart = $this->shop->cart();
        $this->shop->add($cart, $sku, 2);
        $this->shop->save($cart);
        $this->shop->config->set('connection/url', $this->deadAddress());
        $this->shop->save($cart);
        self::assertSame('', $this->shop->logger->text('warning'));
    }

    public function testALineThatGrewIsRefusedBeforeTheSave(): void
    {
        $sku = $this->item(5);
        $rival = $this->shop->cart();
        $this->shop->add($rival, $sku, 2);
        $this->shop->save($rival);
        $cart = $this->shop->cart();
        $line = $this->shop->add($cart, $sku, 2);
        $this->shop->save($cart);
        $this->shop->clock->ahead += 2;
        $line->setQty(4);
        self::assertSame("Only 3 of \"{$sku}\" can be in your cart.", $line->getMessage());
        self::assertTrue($cart->getHasError());
        $line->setQty(3);
        self::assertFalse($line->getHasError() || $cart->getHasError());
        $this->shop->save($cart);
        $this->assertHeld(5, 0, $sku);
        // Two lines of one product count together.
        $second = $this->shop->add($cart, $sku, 1);
        self::assertTrue($second->getHasError());
    }

    public function testASaveNeverThrowsWhenAnotherBuyerWasFaster(): void
    {
        $sku = $this->item(3);
        $cart = $this->shop->cart();
        $this->shop->add($cart, $sku, 3);
        $rival = $this->shop->cart();
        $this->shop->add($rival, $sku, 3);
        $this->shop->save($rival);
        $this->shop->save($cart);
        self::assertNull($cart->getData('stockhold_reservation_id'));
        self::assertStringContainsString("quote {$cart->getId()} is not held: Sold out", $this->shop->logger->text('warning'));
        $this->assertHeld(3, 0, $sku);
    }

    public function testOnlySimpleProductsThatAreManagedAreHeld(): void
    {
        $red = $this->item(10, 'red');
        $screw = $this->item(100, 'screw');
        $cart = $this->shop->cart();
        // A configurable product and its child, then a bundle with four screws in each.
        $shirt = $this->shop->add($cart, $red, 3, ['composite' => true, 'entity_id' => 1]);
        $this->shop->add($cart, $red, 1, [], $shirt);
        $box = $this->shop->add($cart, 'box', 2, ['composite' => true]);
        $this->shop->add($cart, $screw, 4, [], $box);
        // A grouped product comes as its simple products.
        $this->shop->add($cart, $screw, 1);
        $this->shop->add($cart, 'gift-card', 1, ['virtual' => true]);
        $this->shop->add($cart, 'not-managed', 1, ['entity_id' => StockRegistry::NOT_MANAGED]);
        $this->shop->add($cart, 'fabric', 1.5, ['entity_id' => StockRegistry::SOLD_IN_FRACTIONS]);
        self::assertFalse($cart->getHasError());
        $this->shop->save($cart);
        $this->assertHeld(3, 0, $red);
        $this->assertHeld(9, 0, $screw);
        self::assertCount(2, $this->reservation($cart->getData('stockhold_reservation_id'))['lines']);
    }

    public function testMoreOfAParentIsCheckedAtItsChildren(): void
    {
        $screw = $this->item(10, 'screw');
        $cart = $this->shop->cart();
        $box = $this->shop->add($cart, 'box', 2, ['composite' => true]);
        $this->shop->add($cart, $screw, 4, [], $box);
        $this->shop->save($cart);
        $this->assertHeld(8, 0, $screw);
        $box->setQty(3);
        self::assertSame("Only 10 of \"{$screw}\" can be in your cart.", $box->getMessage());
    }

    public function testSkusAndWebsitesThatAreLeftOutAreNotHeld(): void
    {
        $sku = $this->item(10);
        $other = $this->item(10, 'other');
        $this->shop->config->set('holds/skus', "magento-other-*\nsomething-else");
        $cart = $this->shop->cart();
        $this->shop->add($cart, $sku, 1);
        $this->shop->add($cart, $other, 1);
        $this->shop->save($cart);
        $this->assertHeld(0, 0, $sku);
        $this->assertHeld(1, 0, $other);
        $this->shop->config->set('general/enabled', '0');
        $disabled = $this->shop->cart();
        $this->shop->add($disabled, $other, 1);
        $this->shop->save($disabled);
        $this->assertHeld(1, 0, $other);
    }

    public function testALoginMergesTheGuestsCart(): void
    {
        $sku = $this->item(5);
        $guest = $this->shop->cart();
        $this->shop->add($guest, $sku, 2);
        $this->shop->save($guest);
        $guestHold = $guest->getData('stockhold_reservation_id');
        $own = $this->shop->cart(customerId: 9);
        $line = $this->shop->add($own, $sku, 3);
        $this->shop->save($own);
        $hold = $own->getData('stockhold_reservation_id');
        // Nothing is left, so the carts can only be merged without a gap.
        $line->setQty(5);
        $this->shop->container->dispatch('sales_quote_merge_after', ['quote' => $own, 'source' => $guest]);
        $this->shop->save($own);
        $this->shop->container->dispatch('sales_quote_delete_before', ['quote' => $guest]);
        $this->assertHeld(5, 0, $sku);
        self::assertSame($hold, $own->getData('stockhold_reservation_id'));
        self::assertSame([$guestHold], $this->reservation($hold)['merged_from']);
    }

    public function testALoginWithoutACartTakesOverTheGuestsHold(): void
    {
        $sku = $this->item(2);
        $guest = $this->shop->cart();
        $this->shop->add($guest, $sku, 2);
        $this->shop->save($guest);
        $hold = $guest->getData('stockhold_reservation_id');
        $own = $this->shop->cart(customerId: 9);
        $this->shop->container->dispatch('sales_quote_merge_after', ['quote' => $own, 'source' => $guest]);
        $this->shop->add($own, $sku, 2);
        $this->shop->save($own);
        $this->shop->container->dispatch('sales_quote_delete_before', ['quote' => $guest]);
        $reservation = $this->reservation($hold);
        self::assertSame($hold, $own->getData('stockhold_reservation_id'));
        self::assertSame(["quote-{$own->getId()}", 'customer-9', 'active'], [
            $reservation['owner_id'], $reservation['customer_id'], $reservation['status'],
        ]);
        $this->assertHeld(2, 0, $sku);
    }

    public function testAGuestsCartThatBecomesTheCustomersKeepsItsHold(): void
    {
        $sku = $this->item(2);
        $cart = $this->shop->cart();
        $this->shop->add($cart, $sku, 2);
        $this->shop->save($cart);
        $hold = $cart->getData('stockhold_reservation_id');
        $cart->setData('customer_id', 9);
        $this->shop->save($cart);
        self::assertSame($hold, $cart->getData('stockhold_reservation_id'));
        self::assertSame('customer-9', $this->reservation($hold)['customer_id']);
    }

    public function testTheChannelAndThePoolAreThoseOfTheCustomerGroup(): void
    {
        $sku = $this->item(5);
        $this->call('PUT', "/v1/inventory/{$sku}/pools/trade", ['allocated' => 3, 'fallback' => false]);
        $this->shop->config->set('terms/channel', 'web');
        $this->shop->config->set('terms/groups', '2: channel=wholesale, pool=trade');
        $cart = $this->shop->cart();
        $line = $this->shop->add($cart, $sku, 3);
        self::assertSame("Only 2 of \"{$sku}\" can be in your cart.", $line->getMessage());
        $line->setQty(2);
        $this->shop->save($cart);
        self::assertSame('web', $this->reservation($cart->getData('stockhold_reservation_id'))['channel']);
        // The same buyer logs in, and is a trader.
        $cart->setData('customer_group_id', 2);
        $cart->setData('customer_id', 4);
        $this->shop->save($cart);
        $reservation = $this->reservation($cart->getData('stockhold_reservation_id'));
        self::assertSame(['wholesale', 'trade', 'customer-4'], [
            $reservation['channel'], $reservation['pool'], $reservation['customer_id'],
        ]);
        $this->assertHeld(2, 0, $sku);
        $line->setQty(4);
        self::assertSame("Only 3 of \"{$sku}\" can be in your cart.", $line->getMessage());
    }

    public function testACartWithoutAnItemOfThePoolGetsGeneralStock(): void
    {
        $plain = $this->item(5);
        $pooled = $this->item(5);
        $this->call('PUT', "/v1/inventory/{$pooled}/pools/trade", ['allocated' => 3]);
        $this->shop->config->set('terms/pool', 'trade');
        $cart = $this->shop->cart();
        $this->shop->add($cart, $plain, 2);
        $this->shop->save($cart);
        $this->assertHeld(2, 0, $plain);
        $first = $cart->getData('stockhold_reservation_id');
        $this->shop->config->set('connection/url', $this->deadAddress());
        $this->shop->save($cart);
        self::assertSame('', $this->shop->logger->text('warning'), 'A save that changes nothing asks nobody.');
        $this->shop->config->set('connection/url', $this->server);
        // An item of the pool comes into the cart, so the cart is held in the pool.
        $this->shop->add($cart, $pooled, 1);
        $this->shop->save($cart);
        $reservation = $this->reservation($cart->getData('stockhold_reservation_id'));
        self::assertSame(['trade', 'cancelled'], [$reservation['pool'], $this->reservation($first)['status']]);
        $this->assertHeld(2, 0, $plain);
        $this->shop->place($cart);
        $this->assertHeld(0, 1, $pooled);
    }

    public function testAPoolThatIsEmptyIsNotReplacedByGeneralStock(): void
    {
        $sku = $this->item(5);
        $this->call('PUT', "/v1/inventory/{$sku}/pools/trade", ['allocated' => 2, 'fallback' => false]);
        $this->shop->config->set('terms/pool', 'trade');
        $cart = $this->shop->cart();
        $this->shop->add($cart, $sku, 3);
        $this->shop->save($cart);
        self::assertNull($cart->getData('stockhold_reservation_id'));
        $this->assertHeld(0, 0, $sku);
    }

    public function testADeletedCartGivesItsUnitsBack(): void
    {
        $sku = $this->item(2);
        $cart = $this->shop->cart();
        $this->shop->add($cart, $sku, 2);
        $this->shop->save($cart);
        $this->shop->container->dispatch('sales_quote_delete_before', ['quote' => $cart]);
        $this->assertHeld(0, 0, $sku);
    }

    public function testACheckoutStepExtendsTheHold(): void
    {
        $sku = $this->item(2);
        $this->shop->config->set('holds/ttl_seconds', '60');
        $cart = $this->shop->cart();
        $this->shop->add($cart, $sku, 2);
        $this->shop->save($cart);
        $id = $cart->getData('stockhold_reservation_id');
        $before = $this->reservation($id)['expires_at'];
        usleep(20_000);
        $subject = new class implements ShippingInformationManagementInterface {
            public function saveAddressInformation($cartId, ShippingInformationInterface $addressInformation)
            {
                return null;
            }
        };
        $plugin = $this->shop->container->plugin(ShippingInformationManagementInterface::class);
        self::assertSame('details', $plugin->afterSaveAddressInformation($subject, 'details', $cart->getId()));
        self::assertGreaterThan($before, $this->reservation($id)['expires_at']);
    }

    public function testTheBuyerSeesTheTimeLeft(): void
    {
        $sku = $this->item(2);
        $cart = $this->shop->cart();
        $this->shop->add($cart, $sku, 2);
        $this->shop->save($cart);
        $messages = new class implements ManagerInterface {
            /** @var list<string> */
            public array $notices = [];

            public function addNoticeMessage($message, $group = null)
            {
                $this->notices[] = (string)$message;
                return $this;
            }
        };
        $observer = new ShowTimeLeft(
            new Session(['quote_id' => $cart->getId()]),
            $this->shop->container->get(Holds::class),
            $messages,
            $this->shop->clock,
            $this->shop->logger
        );
        $this->shop->clock->ahead += 1;
        $observer->execute(new Observer());
        self::assertSame(['Your cart is held for you for 9 more minute(s).'], $messages->notices);
        $this->shop->clock->ahead += 600;
        $observer->execute(new Observer());
        self::assertCount(1, $messages->notices);
    }

    public function testAHoldThatExpiredIsMadeAgainByTheNextSave(): void
    {
        $sku = $this->item(2);
        $this->shop->config->set('holds/ttl_seconds', '1');
        $cart = $this->shop->cart();
        $line = $this->shop->add($cart, $sku, 2);
        $this->shop->save($cart);
        $id = $cart->getData('stockhold_reservation_id');
        sleep(2);
        $this->shop->config->set('holds/ttl_seconds', '600');
        $rival = $this->call('POST', "/v1/inventory/{$sku}/reserve", ['owner_id' => 'rival', 'quantity' => 1]);
        $line->setQty(2);
        self::assertSame("Only 1 of \"{$sku}\" can be in your cart.", $line->getMessage());
        $this->call('DELETE', "/v1/reservations/{$rival['reservation_id']}");
        $this->shop->save($cart);
        self::assertNotSame($id, $cart->getData('stockhold_reservation_id'));
        self::assertSame('expired', $this->reservation($id)['status']);
        $this->assertHeld(2, 0, $sku);
    }
}
