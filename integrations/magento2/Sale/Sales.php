<?php
/**
 * Turns the hold of a cart into a sale, around the placing of its order: a payment window is opened before, and the hold is confirmed
 * after. Before the order is placed, an entry of the queue says what has to be booked. It is removed when the sale is booked, so a
 * process that dies in between loses no sale.
 */
declare(strict_types=1);

namespace Stockhold\Reservation\Sale;

use Psr\Log\LoggerInterface;
use Stockhold\Reservation\Client\Client;
use Stockhold\Reservation\Client\ClientFactory;
use Stockhold\Reservation\Client\Clock;
use Stockhold\Reservation\Client\Refusal;
use Stockhold\Reservation\Client\Unreachable;
use Stockhold\Reservation\Hold\Buyer;
use Stockhold\Reservation\Hold\Holds;
use Stockhold\Reservation\Hold\HoldStorage;
use Stockhold\Reservation\Hold\Lines;
use Stockhold\Reservation\Hold\ReserveRequest;
use Stockhold\Reservation\Hold\Settings;

final class Sales
{
    /** The queue does not touch an order that is being placed for so long. */
    private const PLACING_SECONDS = 300.0;
    /** A refused sale is tried again after so long: stock may have come. */
    public const REFUSED_PAUSE_SECONDS = 3600.0;
    /** Answers after which the hold can't be confirmed and its units have to be held again. */
    private const HELD_AGAIN = ['reservation_cancelled', 'reservation_confirmed', 'unknown_reservation'];

    public function __construct(
        private readonly Holds $holds,
        private readonly HoldStorage $storage,
        private readonly ClientFactory $clients,
        private readonly Queue $queue,
        private readonly OrderRecords $records,
        private readonly Clock $clock,
        private readonly LoggerInterface $logger
    ) {
    }

    /**
     * Before the order is placed and paid: holds exactly its lines, and opens the payment window.
     *
     * @return array{Placement, int} what is placed, and its entry of the queue
     * @throws Refusal if Stockhold refuses the units
     * @throws Unreachable if Stockhold can't be reached, and the settings refuse orders then
     */
    public function begin(Settings $settings, Buyer $buyer, Lines $lines, OrderKey $order): array
    {
        $placement = $this->prepare($settings, $buyer, $lines, $order);
        $dueAt = $this->clock->now() + self::PLACING_SECONDS;
        $entryId = $this->queue->add($order, QueueEntry::SALE, $order->incrementId, $placement->toArray(), $dueAt);
        return [$placement, $entryId];
    }

    /**
     * After the order was placed. It never throws: the order exists, and what can't be booked now is booked by the queue.
     *
     * @return string the state of the order
     */
    public function complete(Settings $settings, Placement $placement, int $entryId): string
    {
        try {
            if ($placement->isUnreachable) {
                $this->records->mark($placement->order, OrderRecords::QUEUED);
                $this->queue->postpone($entryId, $this->clock->now(), 'Stockhold could not be reached when the order was placed');
                return OrderRecords::QUEUED;
            }
            return $this->book($settings, $placement, $entryId);
        } catch (\Throwable $error) {
            $number = $placement->order->incrementId;
            $this->logger->critical("Stockhold: order {$number} is booked later: {$error->getMessage()}", ['exception' => $error]);
            return OrderRecords::QUEUED;
        }
    }

    /** The order was not placed: nothing is sold. It never throws. */
    public function abandon(Settings $settings, Placement $placement, int $entryId, string $reason): void
    {
        try {
            if ($placement->reservationId !== null) {
                $this->releaseHold($settings, $placement, $reason);
            }
            $this->queue->remove($entryId);
        } catch (\Throwable $error) {
            $number = $placement->order->incrementId;
            $this->logger->error("Stockhold: order {$number} was not placed, and: {$error->getMessage()}", ['exception' => $error]);
        }
    }

    /**
     * Books a placed order.
     *
     * @param bool $isRepetition whether an earlier attempt may have booked it: Stockhold is asked for the order first, because its
     *     idempotency keys may be older than it remembers
     * @return string the state of the order
     */
    public function book(Settings $settings, Placement $placement, int $entryId, bool $isRepetition = false): string
    {
        $order = $placement->order;
        try {
            $reservation = $isRepetition ? $this->earlierSale($settings, $placement) : null;
            $reservation ??= $this->confirmed($settings, $placement);
        } catch (Unreachable $error) {
            $this->records->mark($order, OrderRecords::QUEUED);
            $this->queue->postpone($entryId, $this->clock->now(), $error->getMessage());
            $this->logger->warning("Stockhold: order {$order->incrementId} is booked later: {$error->getMessage()}");
            return OrderRecords::QUEUED;
        } catch (Refusal $refusal) {
            $this->records->mark($order, OrderRecords::OVERSOLD);
            $dueAt = $this->clock->now() + self::REFUSED_PAUSE_SECONDS;
            $this->queue->postpone($entryId, $dueAt, $refusal->getMessage());
            $this->logger->critical("Stockhold: order {$order->incrementId} is sold without stock: {$refusal->getMessage()}");
            return OrderRecords::OVERSOLD;
        }
        $this->records->book($order, (string)$reservation['reservation_id']);
        $this->queue->remove($entryId);
        $hold = $this->storage->find($placement->buyer->quoteId);
        if ($hold !== null && $hold->reservationId === $placement->reservationId) {
            $this->storage->replace($placement->buyer->quoteId, $hold->reservationId, null);
        }
        return OrderRecords::BOOKED;
    }

    /** An order that was never saved, as the queue finds it much later. */
    public function discard(Settings $settings, Placement $placement, int $entryId): void
    {
        if ($placement->reservationId !== null) {
            $this->releaseHold($settings, $placement, 'the order was not saved');
        }
        $this->queue->remove($entryId);
    }

    private function prepare(Settings $settings, Buyer $buyer, Lines $lines, OrderKey $order): Placement
    {
        $hold = null;
        try {
            $hold = $this->holds->sync($settings, $buyer, $lines, verifies: true);
            if ($hold === null) {
                throw new Unreachable('another request of the cart has released its hold');
            }
            $placement = new Placement($order, $buyer, $lines, $hold->reservationId, isVerified: true);
            $this->openPayment($this->clients->create($settings), $settings, $placement);
            return $placement;
        } catch (Unreachable $error) {
            if ($settings->refusesInOutage()) {
                throw $error;
            }
            $this->logger->warning("Stockhold: order {$order->incrementId} is sold by MSI alone: {$error->getMessage()}");
        }
        $reservationId = $hold?->reservationId ?? $this->storage->find($buyer->quoteId)?->reservationId;
        return new Placement($order, $buyer, $lines, $reservationId, isVerified: $hold !== null, isUnreachable: true);
    }

    private function openPayment(Client $client, Settings $settings, Placement $placement): void
    {
        $paymentId = $placement->paymentId();
        try {
            $client->openPayment((string)$placement->reservationId, $paymentId, $settings->paymentWindowSeconds, $this->newKey());
        } catch (Refusal $refusal) {
            // The time for payments of this hold is used up. It is confirmed before its own deadline, or its units are taken again.
            if ($refusal->reason !== 'extension_limit') {
                throw $refusal;
            }
        }
    }

    /** @return array<string, mixed>|null */
    private function earlierSale(Settings $settings, Placement $placement): ?array
    {
        foreach ($this->clients->create($settings)->ofOrder($placement->order->incrementId) as $reservation) {
            if ($reservation['status'] === 'confirmed' && $reservation['owner_id'] === $placement->buyer->ownerId()) {
                return $reservation;
            }
        }
        return null;
    }

    /** @return array<string, mixed> the confirmed reservation */
    private function confirmed(Settings $settings, Placement $placement): array
    {
        $client = $this->clients->create($settings);
        $body = [
            'order_id' => $placement->order->incrementId,
            'payment_id' => $placement->paymentId(),
            'if_expired' => 'reacquire',
        ];
        $key = $placement->order->incrementId;
        if ($placement->reservationId !== null) {
            try {
                if (!$placement->isVerified) {
                    $lines = ['lines' => $placement->lines->toRequest($settings->location)];
                    $client->amend($placement->reservationId, $lines, "{$key}-lines");
                }
                return $client->confirm($placement->reservationId, $body, $key);
            } catch (Refusal $refusal) {
                $isHeldAgain = in_array($refusal->reason, self::HELD_AGAIN, true)
                    || (!$placement->isVerified && $refusal->reason === 'reservation_expired');
                if (!$isHeldAgain) {
                    throw $refusal;
                }
            }
        }
        // The key is of the order: a repetition finds the hold of the first time, which may have expired or been confirmed since.
        [$held] = ReserveRequest::send($client, $settings, $placement->buyer, $placement->lines, "{$key}-hold");
        return $client->confirm((string)$held['reservation_id'], $body, "{$key}-sale");
    }

    private function releaseHold(Settings $settings, Placement $placement, string $reason): void
    {
        $client = $this->clients->create($settings);
        $reservationId = (string)$placement->reservationId;
        try {
            $client->closePayment($reservationId, $placement->paymentId(), $reason);
            $client->release($reservationId, $reason);
        } catch (Refusal | Unreachable $error) {
            // The hold ends by itself at the end of its payment window.
            $number = $placement->order->incrementId;
            $this->logger->warning("Stockhold: the hold of order {$number} was not released: {$error->getMessage()}");
        }
        $this->storage->replace($placement->buyer->quoteId, $reservationId, null);
    }

    private function newKey(): string
    {
        return 'magento-payment-' . bin2hex(random_bytes(16));
    }
}
