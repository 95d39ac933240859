<?php
/**
 * Calls one Stockhold server. Every command has an idempotency key, so a retry takes effect once.
 * A buyer waits for the answer, so there are few tries and short pauses.
 */
declare(strict_types=1);

namespace Stockhold\Reservation\Client;

final class Client
{
    private const TRIES = 3;
    private const PAUSES_SECONDS = [0.1, 0.3];
    /** A server that asks for a longer pause is not waited for. */
    private const LONGEST_PAUSE_SECONDS = 1.0;
    /** Statuses that are an answer of the rules. All others mean that the service can't be used now. */
    private const REFUSALS = [400, 404, 409, 412, 422];

    public function __construct(
        private readonly Http $http,
        private readonly Breaker $breaker,
        private readonly Clock $clock,
        private readonly string $url,
        private readonly string $apiKey,
        private readonly float $timeoutSeconds
    ) {
    }

    /** @param array<string, mixed> $body @return array<string, mixed> */
    public function reserve(array $body, string $key): array
    {
        return $this->command('POST', '/v1/reservations', $body, $key);
    }

    /** @return list<array<string, mixed>> reservations that were confirmed with an order, the last one first */
    public function ofOrder(string $orderId): array
    {
        $path = '/v1/reservations?order_id=' . rawurlencode($orderId);
        return array_values($this->call('GET', $path, null, [])['data'] ?? []);
    }

    /** @param array<string, mixed> $body @return array<string, mixed> */
    public function amend(string $id, array $body, string $key): array
    {
        return $this->command('PATCH', $this->path($id), $body, $key);
    }

    /** @return array<string, mixed> */
    public function extend(string $id, int $ttlSeconds, string $key): array
    {
        return $this->command('POST', $this->path($id, '/extend'), ['ttl_seconds' => $ttlSeconds], $key);
    }

    /** @param array<string, mixed> $body @return array<string, mixed> */
    public function transfer(string $id, array $body, string $key): array
    {
        return $this->command('POST', $this->path($id, '/transfer'), $body, $key);
    }

    /** @param list<string> $from @return array<string, mixed> */
    public function merge(string $id, array $from, string $key): array
    {
        return $this->command('POST', $this->path($id, '/merge'), ['from' => $from], $key);
    }

    /** @return array<string, mixed> */
    public function openPayment(string $id, string $paymentId, int $windowSeconds, string $key): array
    {
        $body = ['payment_id' => $paymentId, 'window_seconds' => $windowSeconds];
        return $this->command('POST', $this->path($id, '/payment'), $body, $key);
    }

    public function closePayment(string $id, string $paymentId, string $reason): void
    {
        $query = http_build_query(['payment_id' => $paymentId, 'reason' => $reason], '', '&', PHP_QUERY_RFC3986);
        $this->call('DELETE', $this->path($id, '/payment?' . $query), null, []);
    }

    /** @param array<string, mixed> $body @return array<string, mixed> */
    public function confirm(string $id, array $body, string $key): array
    {
        return $this->command('POST', $this->path($id, '/confirm'), $body, $key);
    }

    public function release(string $id, string $reason): void
    {
        $this->call('DELETE', $this->path($id, '?reason=' . rawurlencode($reason)), null, []);
    }

    /** @param array<string, mixed> $body @return array<string, mixed> */
    public function fulfil(string $id, array $body, string $key): array
    {
        return $this->command('POST', $this->path($id, '/fulfil'), $body, $key);
    }

    /** @param array<string, mixed> $body @return array<string, mixed> */
    public function returnUnits(string $id, array $body, string $key): array
    {
        return $this->command('POST', $this->path($id, '/return'), $body, $key);
    }

    /** @return array<string, mixed> */
    public function available(string $sku, string $location): array
    {
        return $this->call('GET', $this->item($sku, '/available', $location), null, []);
    }

    /** @return list<array<string, mixed>> */
    public function pools(string $sku, string $location): array
    {
        return array_values($this->call('GET', $this->item($sku, '/pools', $location), null, [])['data'] ?? []);
    }

    private function path(string $id, string $tail = ''): string
    {
        return '/v1/reservations/' . rawurlencode($id) . $tail;
    }

    private function item(string $sku, string $tail, string $location): string
    {
        return '/v1/inventory/' . rawurlencode($sku) . $tail . '?location=' . rawurlencode($location);
    }

    /** @param array<string, mixed> $body @return array<string, mixed> */
    private function command(string $method, string $path, array $body, string $key): array
    {
        $quoted = '"' . addcslashes($key, '"\\') . '"';
        return $this->call($method, $path, $body, ['Idempotency-Key' => $quoted]);
    }

    /**
     * @param array<string, mixed>|null $body
     * @param array<string, string> $headers
     * @return array<string, mixed>
     * @throws Refusal
     * @throws Unreachable
     */
    private function call(string $method, string $path, ?array $body, array $headers): array
    {
        if (!$this->breaker->allows($this->url)) {
            throw new Unreachable("{$method} {$path} was not sent: Stockhold has failed repeatedly and is not asked for a while");
        }
        $request = $this->request($method, $path, $body, $headers);
        for ($try = 1;; ++$try) {
            try {
                $answer = $this->http->send($request);
            } catch (NoAnswer $lost) {
                if ($try >= self::TRIES) {
                    throw $this->failure("{$method} {$path} got no answer in {$try} tries: {$lost->getMessage()}");
                }
                $this->clock->sleep(self::PAUSES_SECONDS[$try - 1]);
                continue;
            }
            if ($answer->status >= 200 && $answer->status < 300) {
                $this->breaker->succeeded($this->url);
                return $answer->members();
            }
            $problem = $answer->members();
            $reason = (string)($problem['reason'] ?? 'unknown');
            if (in_array($answer->status, self::REFUSALS, true) && isset($problem['reason'])) {
                $this->breaker->succeeded($this->url);
                throw new Refusal($answer->status, $reason, $problem);
            }
            $pause = max(self::PAUSES_SECONDS[$try - 1] ?? 0.0, (float)($answer->headers['retry-after'] ?? 0));
            $isRetried = ($problem['retryable'] ?? false) === true && $pause <= self::LONGEST_PAUSE_SECONDS;
            if ($try >= self::TRIES || !$isRetried) {
                throw $this->failure("{$method} {$path} was answered with {$answer->status} {$reason}");
            }
            $this->clock->sleep($pause);
        }
    }

    /** @param array<string, mixed>|null $body @param array<string, string> $headers */
    private function request(string $method, string $path, ?array $body, array $headers): Request
    {
        if ($this->apiKey !== '') {
            $headers['Authorization'] = 'Bearer ' . $this->apiKey;
        }
        $content = null;
        if ($body !== null) {
            $headers['Content-Type'] = 'application/json';
            $content = $body === [] ? '{}' : json_encode($body, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES);
        }
        return new Request($method, $this->url . $path, $headers, $content, $this->timeoutSeconds);
    }

    private function failure(string $message): Unreachable
    {
        $this->breaker->failed($this->url);
        return new Unreachable($message);
    }
}
