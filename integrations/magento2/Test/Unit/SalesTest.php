<?php
/** A sale that is booked again is found by its order, however old its idempotency keys are. */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\Unit;

use Magento\Framework\App\ResourceConnection;
use PHPUnit\Framework\TestCase;
use Stockhold\Reservation\Client\Answer;
use Stockhold\Reservation\Client\Breaker;
use Stockhold\Reservation\Client\ClientFactory;
use Stockhold\Reservation\Hold\Buyer;
use Stockhold\Reservation\Hold\Holds;
use Stockhold\Reservation\Hold\Lines;
use Stockhold\Reservation\Hold\Settings;
use Stockhold\Reservation\Hold\Terms;
use Stockhold\Reservation\Model\CacheBreakerStorage;
use Stockhold\Reservation\Model\DbOrderRecords;
use Stockhold\Reservation\Model\DbQueue;
use Stockhold\Reservation\Model\QuoteHolds;
use Stockhold\Reservation\Sale\OrderKey;
use Stockhold\Reservation\Sale\Placement;
use Stockhold\Reservation\Sale\QueueEntry;
use Stockhold\Reservation\Sale\Sales;
use Stockhold\Reservation\Test\Support\MemoryCache;
use Stockhold\Reservation\Test\Support\MemoryDatabase;
use Stockhold\Reservation\Test\Support\MemoryLogger;
use Stockhold\Reservation\Test\Support\ScriptedHttp;
use Stockhold\Reservation\Test\Support\TestClock;

final class SalesTest extends TestCase
{
    public function testASaleThatWasBookedIsNotBookedAgain(): void
    {
        $ofOthers = ['reservation_id' => 'r-1', 'status' => 'confirmed', 'owner_id' => 'quote-6'];
        $ofOrder = ['reservation_id' => 'r-2', 'status' => 'confirmed', 'owner_id' => 'quote-5'];
        $http = new ScriptedHttp([new Answer(200, json_encode(['data' => [$ofOthers, $ofOrder]]))]);
        $clock = new TestClock();
        $logger = new MemoryLogger();
        $database = new MemoryDatabase();
        $resource = new ResourceConnection($database);
        $clients = new ClientFactory($http, new Breaker(new CacheBreakerStorage(new MemoryCache()), $clock), $clock);
        $storage = new QuoteHolds($resource);
        $queue = new DbQueue($resource, $clock);
        $holds = new Holds($clients, $storage, $clock, $logger);
        $sales = new Sales($holds, $storage, $clients, $queue, new DbOrderRecords($resource), $clock, $logger);

        $order = new OrderKey('100', 1);
        $database->insert('sales_order', ['increment_id' => '100', 'store_id' => 1, 'stockhold_state' => 'queued']);
        $placement = new Placement($order, new Buyer(5, null, new Terms()), Lines::of(['tea' => 1]), null, isVerified: false);
        $entryId = $queue->add($order, QueueEntry::SALE, '100', $placement->toArray(), 0.0);
        $settings = new Settings(true, 'https://stock.example', '', new Terms());
        self::assertSame('booked', $sales->book($settings, $placement, $entryId, isRepetition: true));
        self::assertCount(1, $http->requests);
        self::assertSame('https://stock.example/v1/reservations?order_id=100', $http->requests[0]->url);
        self::assertFalse($queue->has($order));
    }
}
