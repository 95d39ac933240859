<?php
/** Requests, retries and the circuit breaker, without a server. */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\Unit;

use PHPUnit\Framework\TestCase;
use Stockhold\Reservation\Client\Answer;
use Stockhold\Reservation\Client\Breaker;
use Stockhold\Reservation\Client\Client;
use Stockhold\Reservation\Client\Refusal;
use Stockhold\Reservation\Client\Unreachable;
use Stockhold\Reservation\Model\CacheBreakerStorage;
use Stockhold\Reservation\Test\Support\MemoryCache;
use Stockhold\Reservation\Test\Support\ScriptedHttp;
use Stockhold\Reservation\Test\Support\TestClock;

final class ClientTest extends TestCase
{
    private TestClock $clock;
    private ScriptedHttp $http;

    /** @param list<Answer|null> $answers */
    private function client(array $answers): Client
    {
        $this->clock = new TestClock();
        $this->http = new ScriptedHttp($answers);
        $breaker = new Breaker(new CacheBreakerStorage(new MemoryCache()), $this->clock);
        return new Client($this->http, $breaker, $this->clock, 'https://stock.example', 'sh_live_key', 2.5);
    }

    public function testACommandIsRepeatedWithItsKeyUntilAnAnswerComes(): void
    {
        $client = $this->client([null, null, new Answer(200, '{"version":3}')]);
        self::assertSame(['version' => 3], $client->amend('a/b', ['lines' => []], 'key "1"'));
        self::assertCount(3, $this->http->requests);
        foreach ($this->http->requests as $request) {
            self::assertSame(['PATCH', 'https://stock.example/v1/reservations/a%2Fb', '{"lines":[]}', 2.5], [
                $request->method, $request->url, $request->body, $request->timeoutSeconds,
            ]);
            self::assertSame(['"key \"1\""', 'Bearer sh_live_key'], [
                $request->headers['Idempotency-Key'], $request->headers['Authorization'],
            ]);
        }
        self::assertEqualsWithDelta(0.4, $this->clock->ahead, 0.001);
    }

    public function testItGivesUpAfterThreeTries(): void
    {
        $client = $this->client([null, null, null]);
        $this->expectException(Unreachable::class);
        $this->expectExceptionMessage('GET /v1/reservations?order_id=7%2F8 got no answer in 3 tries: lost');
        $client->ofOrder('7/8');
    }

    public function testARefusalIsNotRepeated(): void
    {
        $problem = '{"reason":"reservation_expired","detail":"It has expired.","retryable":false}';
        $client = $this->client([new Answer(409, $problem)]);
        try {
            $client->confirm('id', [], 'key');
            self::fail('It was not refused.');
        } catch (Refusal $refusal) {
            self::assertSame([409, 'reservation_expired', 'It has expired.', true], [
                $refusal->status, $refusal->reason, $refusal->getMessage(), $refusal->isEnded(),
            ]);
        }
        self::assertSame('{}', $this->http->requests[0]->body);
    }

    public function testAFailureIsRepeatedIfItSaysSoAndTheWaitIsShort(): void
    {
        $busy = '{"reason":"overloaded","retryable":true}';
        $client = $this->client([new Answer(503, $busy, ['retry-after' => '1']), new Answer(204, '')]);
        $client->release('id', 'the cart is empty');
        self::assertStringEndsWith('/id?reason=the%20cart%20is%20empty', $this->http->requests[1]->url);
        self::assertEqualsWithDelta(1.0, $this->clock->ahead, 0.001);
        $client = $this->client([new Answer(503, $busy, ['retry-after' => '30'])]);
        $this->expectException(Unreachable::class);
        $client->release('id', 'the cart is empty');
    }

    public function testAProxysErrorPageAndAWrongKeyAreNoRefusals(): void
    {
        foreach ([new Answer(404, '<html>no such site</html>'), new Answer(401, '{"reason":"unauthenticated"}')] as $answer) {
            $client = $this->client([$answer]);
            try {
                $client->release('id', 'test');
                self::fail('It was answered.');
            } catch (Unreachable $error) {
                self::assertStringContainsString((string)$answer->status, $error->getMessage());
                self::assertStringNotContainsString('sh_live_key', $error->getMessage());
            }
        }
    }

    public function testFiveFailuresInThirtySecondsOpenTheBreaker(): void
    {
        $lost = array_fill(0, 18, null);
        $client = $this->client([...$lost, new Answer(204, ''), new Answer(204, '')]);
        for ($failure = 1; $failure <= 5; ++$failure) {
            $this->assertUnreachable($client, 'got no answer');
        }
        self::assertCount(15, $this->http->requests);
        $this->assertUnreachable($client, 'was not sent');
        self::assertCount(15, $this->http->requests);
        // The trial after the pause fails too, so it is not asked for another 30 s.
        $this->clock->ahead += Breaker::PAUSE_SECONDS;
        $this->assertUnreachable($client, 'got no answer');
        self::assertCount(18, $this->http->requests);
        $this->assertUnreachable($client, 'was not sent');
        $this->clock->ahead += Breaker::PAUSE_SECONDS;
        $client->release('id', 'test');
        $client->release('id', 'test');
        self::assertCount(20, $this->http->requests);
    }

    public function testFailuresThatAreFarApartDoNotOpenTheBreaker(): void
    {
        $client = $this->client(array_fill(0, 30, null));
        for ($failure = 1; $failure <= 10; ++$failure) {
            $this->assertUnreachable($client, 'got no answer');
            $this->clock->ahead += Breaker::WITHIN_SECONDS / 4;
        }
        self::assertCount(30, $this->http->requests);
    }

    private function assertUnreachable(Client $client, string $message): void
    {
        try {
            $client->release('id', 'test');
            self::fail('It was answered.');
        } catch (Unreachable $error) {
            self::assertStringContainsString($message, $error->getMessage());
        }
    }
}
