<?php
/**
 * Says whether a line that grew can be held, before the cart is saved. It reads and holds nothing: the hold is made after the save,
 * and another buyer may be faster. Only lines that grew are looked at.
 */
declare(strict_types=1);

namespace Stockhold\Reservation\Hold;

use Stockhold\Reservation\Client\ClientFactory;
use Stockhold\Reservation\Client\Clock;
use Stockhold\Reservation\Client\Refusal;
use Stockhold\Reservation\Client\Unreachable;

final class AvailabilityCheck
{
    /** A request of the shop sets the quantity of a line several times. The answer is kept so long. */
    private const KEPT_SECONDS = 1.0;
    /** A process that runs for long must not keep an answer for every SKU. */
    private const MOST_ANSWERS = 1000;

    /** @var array<string, array{at: float, available: int}> */
    private array $answers = [];

    public function __construct(
        private readonly ClientFactory $clients,
        private readonly Clock $clock
    ) {
    }

    /**
     * @param Hold|null $hold what the cart holds already; its units count as available to it
     * @throws Unreachable
     */
    public function shortage(Settings $settings, Terms $terms, ?Hold $hold, string $sku, int $wanted): ?Shortage
    {
        $now = $this->clock->now();
        $held = $hold !== null && $hold->isCurrent($now) ? $hold->lines->quantity($sku) : 0;
        if ($wanted <= $held) {
            return null;
        }
        $available = $held + $this->available($settings, $terms, $sku, $held);
        return $wanted <= $available ? null : new Shortage($sku, $wanted, $available);
    }

    private function available(Settings $settings, Terms $terms, string $sku, int $held): int
    {
        // What the cart held when the answer came was not available: with another hold, the answer is another one.
        $name = implode("\n", [$settings->url, $settings->location, $terms->pool, $sku, $held]);
        $now = $this->clock->now();
        $kept = $this->answers[$name] ?? null;
        if ($kept !== null && $now - $kept['at'] < self::KEPT_SECONDS) {
            return $kept['available'];
        }
        $available = $this->ask($settings, $terms, $sku);
        if (count($this->answers) >= self::MOST_ANSWERS) {
            $this->answers = [];
        }
        $this->answers[$name] = ['at' => $now, 'available' => $available];
        return $available;
    }

    private function ask(Settings $settings, Terms $terms, string $sku): int
    {
        $client = $this->clients->create($settings);
        try {
            $general = (int)$client->available($sku, $settings->location)['available'];
            $pools = $terms->pool === '' ? [] : $client->pools($sku, $settings->location);
        } catch (Refusal $refusal) {
            // The item does not exist: nothing of it can be held.
            return 0;
        }
        foreach ($pools as $pool) {
            if ($pool['pool'] === $terms->pool) {
                return (int)$pool['free'] + (($pool['fallback'] ?? true) === false ? 0 : $general);
            }
        }
        return $general;
    }
}
