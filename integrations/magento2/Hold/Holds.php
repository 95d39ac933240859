<?php
/**
 * Keeps the hold of a cart equal to the cart: one reservation for the whole cart, changed by amend, so that nobody can take a unit
 * in between.
 */
declare(strict_types=1);

namespace Stockhold\Reservation\Hold;

use Psr\Log\LoggerInterface;
use Stockhold\Reservation\Client\Client;
use Stockhold\Reservation\Client\ClientFactory;
use Stockhold\Reservation\Client\Clock;
use Stockhold\Reservation\Client\Refusal;
use Stockhold\Reservation\Client\Unreachable;

final class Holds
{
    /** Payments that this module opens. A window of such a payment may be closed by the next attempt of the same cart. */
    public const PAYMENT_PREFIX = 'order-';

    public function __construct(
        private readonly ClientFactory $clients,
        private readonly HoldStorage $storage,
        private readonly Clock $clock,
        private readonly LoggerInterface $logger
    ) {
    }

    /**
     * Makes the hold equal to the cart. Without `$verifies`, a hold that is current and equal by what the quote remembers is not
     * asked about.
     *
     * @throws Refusal
     * @throws Unreachable
     */
    public function sync(Settings $settings, Buyer $buyer, Lines $lines, bool $verifies = false): ?Hold
    {
        $old = $this->storage->find($buyer->quoteId);
        if ($lines->isEmpty()) {
            $this->release($settings, $buyer->quoteId, 'the cart is empty');
            return null;
        }
        $isKnown = $old !== null && $old->isCurrent($this->clock->now()) && $old->isOf($buyer) && $old->lines->equals($lines);
        if ($isKnown && !$verifies) {
            return $old;
        }
        $client = $this->clients->create($settings);
        $hold = $old === null ? null : $this->change($client, $settings, $old, $buyer, $lines);
        $hold ??= $this->reserve($client, $settings, $buyer, $lines);
        if ($this->storage->replace($buyer->quoteId, $old?->reservationId, $hold)) {
            return $hold;
        }
        return $this->joinOther($client, $settings, $buyer, $lines, $hold);
    }

    /** Moves the deadline at a step of the checkout. A failure changes nothing: the hold has its old deadline. */
    public function extend(Settings $settings, int $quoteId): ?Hold
    {
        $old = $this->storage->find($quoteId);
        if ($old === null || !$old->isCurrent($this->clock->now())) {
            return $old;
        }
        try {
            $key = $this->newKey('extend');
            $answer = $this->clients->create($settings)->extend($old->reservationId, $settings->ttlSeconds, $key);
        } catch (Refusal | Unreachable $error) {
            $this->logger->info("Stockhold: the hold of quote {$quoteId} was not extended: {$error->getMessage()}");
            return $old;
        }
        $buyer = new Buyer($quoteId, $old->customerId, $old->terms);
        $hold = Hold::fromReservation($answer, $old->lines, $buyer, $old->terms);
        $this->storage->replace($quoteId, $old->reservationId, $hold);
        return $hold;
    }

    /**
     * Adds the hold of a guest's cart to the cart of the customer who logs in. What can't be merged stays as it is, and the next
     * sync holds the whole cart.
     */
    public function mergeGuest(Settings $settings, Buyer $buyer, int $guestQuoteId): void
    {
        $guest = $this->storage->find($guestQuoteId);
        if ($guest === null || $guestQuoteId === $buyer->quoteId) {
            return;
        }
        $own = $this->storage->find($buyer->quoteId);
        $client = $this->clients->create($settings);
        try {
            $hold = $own === null || !$own->isCurrent($this->clock->now())
                ? $this->transferred($client, $guest, $buyer)
                : $this->merged($client, $own, $guest);
        } catch (Refusal | Unreachable $error) {
            $this->logger->info("Stockhold: quote {$guestQuoteId} was not merged into {$buyer->quoteId}: {$error->getMessage()}");
            return;
        }
        $this->storage->replace($guestQuoteId, $guest->reservationId, null);
        $this->storage->replace($buyer->quoteId, $own?->reservationId, $hold);
    }

    /** Gives the units back at once. If Stockhold can't be reached, the hold ends at its deadline. */
    public function release(Settings $settings, int $quoteId, string $reason): void
    {
        $hold = $this->storage->find($quoteId);
        if ($hold === null) {
            return;
        }
        try {
            $this->releaseReservation($this->clients->create($settings), $hold->reservationId, $reason);
        } catch (Refusal | Unreachable $error) {
            $this->logger->info("Stockhold: the hold of quote {$quoteId} was not released: {$error->getMessage()}");
        }
        $this->storage->replace($quoteId, $hold->reservationId, null);
    }

    /** What the quote remembers of its hold. */
    public function find(int $quoteId): ?Hold
    {
        return $this->storage->find($quoteId);
    }

    /** The changed hold; null if the old one has ended. */
    private function change(Client $client, Settings $settings, Hold $old, Buyer $buyer, Lines $lines): ?Hold
    {
        if (!$old->terms->equals($buyer->terms)) {
            $other = $this->withOtherTerms($client, $settings, $old, $buyer, $lines);
            if ($other !== null) {
                return $other;
            }
        }
        try {
            if ($old->customerId !== $buyer->customerId) {
                $body = ['customer_id' => $buyer->customerName()];
                $this->unpaid($client, $old, fn () => $client->transfer($old->reservationId, $body, $this->newKey('transfer')));
            }
            $body = ['lines' => $lines->toRequest($settings->location)];
            $answer = $this->unpaid($client, $old, fn () => $client->amend($old->reservationId, $body, $this->newKey('amend')));
        } catch (Refusal $refusal) {
            if ($refusal->isEnded()) {
                return null;
            }
            throw $refusal;
        }
        return Hold::fromReservation($answer, $lines, $buyer, $old->terms);
    }

    /**
     * Another channel or pool needs a new reservation. It is made before the old one is released, so that nothing is lost if it is
     * refused. Then the old one stays as it is.
     */
    private function withOtherTerms(Client $client, Settings $settings, Hold $old, Buyer $buyer, Lines $lines): ?Hold
    {
        try {
            $key = $this->newKey('hold');
            // Without the pool, a new hold is worth something only if it has another channel.
            [$answer, $terms] = $old->terms->channel === $buyer->terms->channel
                ? [ReserveRequest::sendWith($client, $settings, $buyer, $lines, $buyer->terms, $key), $buyer->terms]
                : ReserveRequest::send($client, $settings, $buyer, $lines, $key);
        } catch (Refusal $refusal) {
            $this->logger->info("Stockhold: quote {$buyer->quoteId} keeps its channel and pool: {$refusal->getMessage()}");
            return null;
        }
        try {
            $this->releaseReservation($client, $old->reservationId, 'another channel or pool');
        } catch (Refusal | Unreachable $error) {
            $this->logger->info("Stockhold: the old hold of quote {$buyer->quoteId} was not released: {$error->getMessage()}");
        }
        return Hold::fromReservation($answer, $lines, $buyer, $terms);
    }

    private function reserve(Client $client, Settings $settings, Buyer $buyer, Lines $lines): Hold
    {
        [$answer, $terms] = ReserveRequest::send($client, $settings, $buyer, $lines, $this->newKey('hold'));
        return Hold::fromReservation($answer, $lines, $buyer, $terms);
    }

    /** Another request of the same cart has stored a hold meanwhile. Its hold is changed, and ours is given back. */
    private function joinOther(Client $client, Settings $settings, Buyer $buyer, Lines $lines, Hold $ours): ?Hold
    {
        $other = $this->storage->find($buyer->quoteId);
        if ($other !== null && $other->reservationId === $ours->reservationId) {
            return $ours;
        }
        $this->releaseReservation($client, $ours->reservationId, 'the cart has another hold');
        $changed = $other === null ? null : $this->change($client, $settings, $other, $buyer, $lines);
        if ($changed !== null) {
            $this->storage->replace($buyer->quoteId, $other?->reservationId, $changed);
        }
        return $changed;
    }

    private function transferred(Client $client, Hold $guest, Buyer $buyer): Hold
    {
        $body = ['owner_id' => $buyer->ownerId(), 'customer_id' => $buyer->customerName()];
        $answer = $client->transfer($guest->reservationId, $body, $this->newKey('transfer'));
        return Hold::fromReservation($answer, $guest->lines, $buyer, $guest->terms);
    }

    private function merged(Client $client, Hold $own, Hold $guest): Hold
    {
        $answer = $client->merge($own->reservationId, [$guest->reservationId], $this->newKey('merge'));
        $lines = $own->lines;
        foreach ($guest->lines->toArray() as $sku => $quantity) {
            $lines = $lines->with((string)$sku, $quantity);
        }
        $buyer = new Buyer(0, $own->customerId, $own->terms);
        return Hold::fromReservation($answer, $lines, $buyer, $own->terms);
    }

    /**
     * Does a change that an open payment window would refuse. A window of an earlier attempt to place this cart, which has ended
     * without closing it, is closed first.
     *
     * @param callable(): array<string, mixed> $change
     * @return array<string, mixed>
     */
    private function unpaid(Client $client, Hold $hold, callable $change): array
    {
        try {
            return $change();
        } catch (Refusal $refusal) {
            $paymentId = (string)($refusal->problem['payment_id'] ?? '');
            if ($refusal->reason !== 'payment_in_progress' || !str_starts_with($paymentId, self::PAYMENT_PREFIX)) {
                throw $refusal;
            }
        }
        $client->closePayment($hold->reservationId, $paymentId, 'the cart was changed');
        return $change();
    }

    /** Releases a hold whose payment may be open. A hold that was sold stays sold. */
    private function releaseReservation(Client $client, string $reservationId, string $reason): void
    {
        try {
            $client->release($reservationId, $reason);
        } catch (Refusal $refusal) {
            $paymentId = (string)($refusal->problem['payment_id'] ?? '');
            if ($refusal->reason !== 'payment_in_progress' || !str_starts_with($paymentId, self::PAYMENT_PREFIX)) {
                throw $refusal;
            }
            $client->closePayment($reservationId, $paymentId, $reason);
            $client->release($reservationId, $reason);
        }
    }

    private function newKey(string $what): string
    {
        return "magento-{$what}-" . bin2hex(random_bytes(16));
    }
}
