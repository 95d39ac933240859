<?php
/** Two requests of one cart at the same time end with one hold. */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\EndToEnd;

use Stockhold\Reservation\Client\ClientFactory;
use Stockhold\Reservation\Client\Clock;
use Stockhold\Reservation\Hold\Buyer;
use Stockhold\Reservation\Hold\Holds;
use Stockhold\Reservation\Hold\HoldStorage;
use Stockhold\Reservation\Hold\Lines;
use Stockhold\Reservation\Hold\SettingsSource;
use Stockhold\Reservation\Hold\Terms;
use Stockhold\Reservation\Test\Support\InterruptedStorage;

final class ConcurrencyTest extends ShopTestCase
{
    public function testTwoRequestsOfOneCartHaveOneHold(): void
    {
        $sku = $this->item(10);
        $container = $this->shop->container;
        $settings = $container->get(SettingsSource::class)->ofStore(1);
        $storage = $container->get(HoldStorage::class);
        $buyer = new Buyer((int)$this->shop->cart()->getId(), null, new Terms());
        $other = fn () => $container->get(Holds::class)->sync($settings, $buyer, Lines::of([$sku => 2]));
        $holds = new Holds(
            $container->get(ClientFactory::class),
            new InterruptedStorage($storage, $other),
            $container->get(Clock::class),
            $this->shop->logger
        );
        $hold = $holds->sync($settings, $buyer, Lines::of([$sku => 3]));
        $this->assertItem(['held_units' => 3, 'active_reservations' => 1], $sku);
        self::assertSame($hold?->reservationId, $storage->find($buyer->quoteId)?->reservationId);
    }
}
