<?php
/** For whom a cart is held. The owner is named after the quote, never after a PHP session: session ids are credentials. */
declare(strict_types=1);

namespace Stockhold\Reservation\Hold;

final class Buyer
{
    public function __construct(
        public readonly int $quoteId,
        public readonly ?int $customerId,
        public readonly Terms $terms
    ) {
    }

    public function ownerId(): string
    {
        return "quote-{$this->quoteId}";
    }

    public function customerName(): ?string
    {
        return $this->customerId === null ? null : "customer-{$this->customerId}";
    }
}
