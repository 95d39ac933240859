<?php
/** What a quote remembers, and what the buyer reads. */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\Unit;

use PHPUnit\Framework\TestCase;
use Stockhold\Reservation\Client\Refusal;
use Stockhold\Reservation\Hold\Buyer;
use Stockhold\Reservation\Hold\BuyerMessages;
use Stockhold\Reservation\Hold\Hold;
use Stockhold\Reservation\Hold\Lines;
use Stockhold\Reservation\Hold\Shortage;
use Stockhold\Reservation\Hold\Terms;

final class HoldTest extends TestCase
{
    public function testAHoldIsReadAsItWasWritten(): void
    {
        $buyer = new Buyer(5, 9, new Terms('web', 'vip'));
        $answer = ['reservation_id' => 'r-1', 'expires_at' => '2026-11-27T12:00:00.500Z'];
        // SKUs that are numbers must not become a list.
        $hold = Hold::fromReservation($answer, Lines::of(['0' => 1, '1' => 2, 'a' => 3]), $buyer, $buyer->terms);
        self::assertEquals($hold, Hold::fromColumns('r-1', $hold->toJson()));
        self::assertSame(1795780800.5, $hold->expiresAt);
        self::assertTrue($hold->isOf($buyer) && $hold->isCurrent(1795780800.4) && !$hold->isCurrent(1795780800.5));
        self::assertSame(90, $hold->secondsLeft(1795780710.2));
    }

    public function testWhatCanNotBeReadIsNoHold(): void
    {
        self::assertNull(Hold::fromColumns(null, null));
        self::assertNull(Hold::fromColumns('', '{}'));
        self::assertNull(Hold::fromColumns('r-1', 'not JSON'));
    }

    public function testLinesAreAddedUpAndCompared(): void
    {
        $lines = Lines::none()->with('b', 1)->with('a', 2)->with('b', 3)->with('c', 0);
        self::assertTrue($lines->equals(Lines::of(['a' => 2, 'b' => 4])));
        self::assertSame([0, 4], [$lines->quantity('c'), $lines->quantity('b')]);
        self::assertSame([['sku' => '7', 'location' => 'hub', 'quantity' => 1]], Lines::of(['7' => 1])->toRequest('hub'));
        self::assertTrue(Lines::of(['a' => 0])->isEmpty());
    }

    public function testTheOwnerIsNamedAfterTheQuote(): void
    {
        $guest = new Buyer(5, null, new Terms());
        self::assertSame(['quote-5', null], [$guest->ownerId(), $guest->customerName()]);
    }

    public function testTheBuyerReadsWhatCanBeDone(): void
    {
        $now = 1795780800.0;
        $soon = '2026-11-27T12:04:30.000Z';
        $text = static fn (array $message): string => (string)__($message[0], ...$message[1]);
        self::assertSame('Only 2 of "tea" can be in your cart.', $text(BuyerMessages::shortage(new Shortage('tea', 3, 2), $now)));
        self::assertSame('"tea" is not available.', $text(BuyerMessages::shortage(new Shortage('tea', 3, 0), $now)));
        self::assertSame(
            '"tea" is held by other buyers. Units may be free again in 5 minute(s).',
            $text(BuyerMessages::shortage(new Shortage('tea', 3, 0, $soon), $now))
        );
        self::assertSame('Your cart is held for you for 9 more minute(s).', $text(BuyerMessages::timeLeft(599)));
        self::assertSame('Your cart is held for you for 59 more second(s).', $text(BuyerMessages::timeLeft(59)));
    }

    public function testARefusalNamesTheLine(): void
    {
        $line = ['sku' => 'tea', 'location' => 'default', 'requested_quantity' => 5, 'available' => 2];
        $short = new Refusal(409, 'insufficient_inventory', ['lines' => [$line]]);
        self::assertSame(['Only %1 of "%2" can be in your cart.', [2, 'tea']], BuyerMessages::refusal($short, 0.0));
        $unknown = new Refusal(404, 'unknown_item', ['items' => [['sku' => 'tea', 'location' => 'default']]]);
        self::assertSame(['"%1" is not available.', ['tea']], BuyerMessages::refusal($unknown, 0.0));
        $paused = new Refusal(409, 'sale_paused', []);
        self::assertStringContainsString('not on sale', BuyerMessages::refusal($paused, 0.0)[0]);
        self::assertStringContainsString('can\'t be held', BuyerMessages::refusal(new Refusal(409, 'other', []), 0.0)[0]);
    }
}
