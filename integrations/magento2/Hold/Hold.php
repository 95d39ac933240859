<?php
/** What the quote remembers of its hold. Stockhold has the truth. */
declare(strict_types=1);

namespace Stockhold\Reservation\Hold;

final class Hold
{
    public function __construct(
        public readonly string $reservationId,
        public readonly Lines $lines,
        public readonly float $expiresAt,
        public readonly ?int $customerId,
        public readonly Terms $terms
    ) {
    }

    /** @param array<string, mixed> $reservation an answer of the API */
    public static function fromReservation(array $reservation, Lines $lines, Buyer $buyer, Terms $terms): self
    {
        return new self(
            (string)$reservation['reservation_id'],
            $lines,
            self::seconds((string)$reservation['expires_at']),
            $buyer->customerId,
            $terms
        );
    }

    public function isCurrent(float $now): bool
    {
        return $now < $this->expiresAt;
    }

    public function secondsLeft(float $now): int
    {
        return max(0, (int)floor($this->expiresAt - $now));
    }

    /** Whether it is for this buyer. A hold without the buyer's pool is: perhaps no item of the cart has that pool. */
    public function isOf(Buyer $buyer): bool
    {
        return $this->customerId === $buyer->customerId
            && ($this->terms->equals($buyer->terms) || $this->terms->equals($buyer->terms->withoutPool()));
    }

    public function toJson(): string
    {
        return json_encode([
            // An object, also when all SKUs are numbers.
            'lines' => (object)$this->lines->toArray(),
            'expires_at' => $this->expiresAt,
            'customer_id' => $this->customerId,
            'channel' => $this->terms->channel,
            'pool' => $this->terms->pool,
        ], JSON_THROW_ON_ERROR | JSON_PRESERVE_ZERO_FRACTION);
    }

    /** A hold that can't be read is no hold: the next save of the cart makes a new one. */
    public static function fromColumns(?string $reservationId, ?string $json): ?self
    {
        $value = json_decode((string)$json, true);
        if ($reservationId === null || $reservationId === '' || !is_array($value)) {
            return null;
        }
        return new self(
            $reservationId,
            Lines::of(array_map('intval', (array)($value['lines'] ?? []))),
            (float)($value['expires_at'] ?? 0),
            isset($value['customer_id']) ? (int)$value['customer_id'] : null,
            new Terms((string)($value['channel'] ?? ''), (string)($value['pool'] ?? ''))
        );
    }

    private static function seconds(string $time): float
    {
        return (float)(new \DateTimeImmutable($time))->format('U.u');
    }
}
