<?php
/** Texts for the buyer: a template with `%1`, `%2`, … and its arguments, for the shop's own translation. */
declare(strict_types=1);

namespace Stockhold\Reservation\Hold;

use Stockhold\Reservation\Client\Refusal;

final class BuyerMessages
{
    private const SECONDS_OF_MINUTE = 60;

    /** @return array{string, list<string|int>} */
    public static function shortage(Shortage $shortage, float $now): array
    {
        if ($shortage->available > 0) {
            return ['Only %1 of "%2" can be in your cart.', [$shortage->available, $shortage->sku]];
        }
        $minutes = self::minutesUntil($shortage->nextExpiryAt, $now);
        return $minutes === null
            ? ['"%1" is not available.', [$shortage->sku]]
            : ['"%1" is held by other buyers. Units may be free again in %2 minute(s).', [$shortage->sku, $minutes]];
    }

    /** @return array{string, list<string|int>} */
    public static function refusal(Refusal $refusal, float $now): array
    {
        $shortage = Shortage::fromRefusal($refusal);
        if ($shortage !== null) {
            return self::shortage($shortage, $now);
        }
        return match ($refusal->reason) {
            'sale_paused' => ['Something in your cart is not on sale at the moment.', []],
            'limit_exceeded', 'quantity_limit' => ['Your cart has more of a product than one buyer may have.', []],
            'customer_required' => ['Please log in to buy what is in your cart.', []],
            default => ['Your cart can\'t be held. Please try again.', []],
        };
    }

    /** @return array{string, list<string|int>} */
    public static function unreachable(): array
    {
        return ['The stock can\'t be checked at the moment. Please try again in a minute.', []];
    }

    /** @return array{string, list<string|int>} */
    public static function timeLeft(int $secondsLeft): array
    {
        $minutes = intdiv($secondsLeft, self::SECONDS_OF_MINUTE);
        return $minutes > 0
            ? ['Your cart is held for you for %1 more minute(s).', [$minutes]]
            : ['Your cart is held for you for %1 more second(s).', [$secondsLeft]];
    }

    private static function minutesUntil(?string $time, float $now): ?int
    {
        if ($time === null) {
            return null;
        }
        $seconds = (new \DateTimeImmutable($time))->getTimestamp() - $now;
        return $seconds <= 0 ? null : (int)ceil($seconds / self::SECONDS_OF_MINUTE);
    }
}
