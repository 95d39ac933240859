<?php
/** An order that is being placed: everything that is needed to book it later, also by another process. */
declare(strict_types=1);

namespace Stockhold\Reservation\Sale;

use Stockhold\Reservation\Hold\Buyer;
use Stockhold\Reservation\Hold\Holds;
use Stockhold\Reservation\Hold\Lines;
use Stockhold\Reservation\Hold\Terms;

final class Placement
{
    public function __construct(
        public readonly OrderKey $order,
        public readonly Buyer $buyer,
        public readonly Lines $lines,
        /** Null if Stockhold could not be reached before any hold was made. */
        public readonly ?string $reservationId,
        /** Whether the reservation is known to have exactly these lines. */
        public readonly bool $isVerified,
        public readonly bool $isUnreachable = false
    ) {
    }

    public function paymentId(): string
    {
        return Holds::PAYMENT_PREFIX . $this->order->incrementId;
    }

    /** @return array<string, mixed> */
    public function toArray(): array
    {
        return [
            'reservation_id' => $this->reservationId,
            'is_verified' => $this->isVerified,
            'quote_id' => $this->buyer->quoteId,
            'customer_id' => $this->buyer->customerId,
            'channel' => $this->buyer->terms->channel,
            'pool' => $this->buyer->terms->pool,
            'lines' => (object)$this->lines->toArray(),
        ];
    }

    /** @param array<string, mixed> $body */
    public static function fromArray(OrderKey $order, array $body): self
    {
        $terms = new Terms((string)$body['channel'], (string)$body['pool']);
        $customerId = isset($body['customer_id']) ? (int)$body['customer_id'] : null;
        return new self(
            $order,
            new Buyer((int)$body['quote_id'], $customerId, $terms),
            Lines::of(array_map('intval', (array)$body['lines'])),
            isset($body['reservation_id']) ? (string)$body['reservation_id'] : null,
            (bool)$body['is_verified']
        );
    }
}
