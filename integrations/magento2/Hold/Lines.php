<?php
/** How many units of which SKU: whole numbers above 0. SKUs are compared byte by byte, as Stockhold does. */
declare(strict_types=1);

namespace Stockhold\Reservation\Hold;

final class Lines
{
    /** @param array<array-key, int> $bySku */
    private function __construct(private readonly array $bySku)
    {
    }

    public static function none(): self
    {
        return new self([]);
    }

    /** @param array<array-key, int> $bySku */
    public static function of(array $bySku): self
    {
        $kept = array_filter($bySku, static fn (int $quantity): bool => $quantity > 0);
        ksort($kept, SORT_STRING);
        return new self($kept);
    }

    public function with(string $sku, int $quantity): self
    {
        $bySku = $this->bySku;
        $bySku[$sku] = ($bySku[$sku] ?? 0) + $quantity;
        return self::of($bySku);
    }

    public function quantity(string $sku): int
    {
        return $this->bySku[$sku] ?? 0;
    }

    public function isEmpty(): bool
    {
        return $this->bySku === [];
    }

    public function equals(self $other): bool
    {
        return $this->bySku === $other->bySku;
    }

    /** @return array<array-key, int> */
    public function toArray(): array
    {
        return $this->bySku;
    }

    /** @return list<array{sku: string, location: string, quantity: int}> the lines of a request */
    public function toRequest(string $location): array
    {
        $lines = [];
        foreach ($this->bySku as $sku => $quantity) {
            $lines[] = ['sku' => (string)$sku, 'location' => $location, 'quantity' => $quantity];
        }
        return $lines;
    }
}
