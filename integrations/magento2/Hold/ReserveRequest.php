<?php
/** Makes a new hold for a cart or an order. */
declare(strict_types=1);

namespace Stockhold\Reservation\Hold;

use Stockhold\Reservation\Client\Client;
use Stockhold\Reservation\Client\Refusal;

final class ReserveRequest
{
    /**
     * Reserves with the buyer's channel and pool. If no item of the cart has that pool, Stockhold refuses the name, and the cart gets
     * general stock.
     *
     * @return array{array<string, mixed>, Terms} the reservation, and the terms that it has
     */
    public static function send(Client $client, Settings $settings, Buyer $buyer, Lines $lines, string $key): array
    {
        try {
            return [self::sendWith($client, $settings, $buyer, $lines, $buyer->terms, $key), $buyer->terms];
        } catch (Refusal $refusal) {
            if ($buyer->terms->pool === '' || ($refusal->problem['errors'][0]['pointer'] ?? null) !== '/pool') {
                throw $refusal;
            }
        }
        $terms = $buyer->terms->withoutPool();
        return [self::sendWith($client, $settings, $buyer, $lines, $terms, $key), $terms];
    }

    /** @return array<string, mixed> */
    public static function sendWith(
        Client $client,
        Settings $settings,
        Buyer $buyer,
        Lines $lines,
        Terms $terms,
        string $key
    ): array {
        $body = [
            'owner_id' => $buyer->ownerId(),
            'customer_id' => $buyer->customerName(),
            'channel' => $terms->channel,
            'pool' => $terms->pool,
            'lines' => $lines->toRequest($settings->location),
            'ttl_seconds' => $settings->ttlSeconds,
        ];
        $isGiven = static fn (mixed $value): bool => $value !== null && $value !== '';
        return $client->reserve(array_filter($body, $isGiven), $key);
    }
}
