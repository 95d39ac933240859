<?php
/** The settings of one website. */
declare(strict_types=1);

namespace Stockhold\Reservation\Hold;

final class Settings
{
    /** No order and no larger cart while Stockhold can't be reached. */
    public const REFUSE = 'refuse';
    /** Magento's own inventory decides meanwhile. Such orders are flagged and booked later. */
    public const SELL_BY_MSI = 'msi';

    /**
     * @param list<string> $skuPatterns SKUs that are held, with `*` for any characters; empty: all
     * @param array<int, Terms> $termsByGroup by customer group
     */
    public function __construct(
        public readonly bool $isEnabled,
        public readonly string $url,
        public readonly string $apiKey,
        public readonly Terms $terms,
        public readonly int $ttlSeconds = 600,
        public readonly int $paymentWindowSeconds = 900,
        public readonly string $onOutage = self::REFUSE,
        public readonly array $skuPatterns = [],
        public readonly string $location = 'default',
        public readonly array $termsByGroup = [],
        public readonly float $timeoutSeconds = 3.0
    ) {
    }

    public function appliesTo(string $sku): bool
    {
        foreach ($this->skuPatterns as $pattern) {
            $expression = '/^' . str_replace('\*', '.*', preg_quote($pattern, '/')) . '$/su';
            if (preg_match($expression, $sku) === 1) {
                return true;
            }
        }
        return $this->skuPatterns === [];
    }

    public function termsOf(int $customerGroupId): Terms
    {
        return $this->termsByGroup[$customerGroupId] ?? $this->terms;
    }

    public function refusesInOutage(): bool
    {
        return $this->onOutage !== self::SELL_BY_MSI;
    }
}
