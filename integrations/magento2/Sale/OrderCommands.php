<?php
/**
 * Sends the commands of sold orders to Stockhold: shipments and returns. While an earlier command of the order waits in the queue, a later
 * one waits behind it.
 */
declare(strict_types=1);

namespace Stockhold\Reservation\Sale;

use Psr\Log\LoggerInterface;
use Stockhold\Reservation\Client\ClientFactory;
use Stockhold\Reservation\Client\Clock;
use Stockhold\Reservation\Client\Refusal;
use Stockhold\Reservation\Client\Unreachable;
use Stockhold\Reservation\Hold\Lines;
use Stockhold\Reservation\Hold\Settings;

final class OrderCommands
{
    public const RESTOCK = 'restock';
    public const WRITE_OFF = 'write_off';
    public const UNSHIPPED = 'unfulfilled';
    public const SHIPPED = 'fulfilled';

    public function __construct(
        private readonly ClientFactory $clients,
        private readonly Queue $queue,
        private readonly OrderRecords $records,
        private readonly Clock $clock,
        private readonly LoggerInterface $logger
    ) {
    }

    public function fulfil(Settings $settings, OrderKey $order, Lines $lines, string $key): void
    {
        if (!$lines->isEmpty()) {
            $this->submit($settings, $order, QueueEntry::FULFIL, $key, ['lines' => $lines->toRequest($settings->location)]);
        }
    }

    public function returnUnits(
        Settings $settings,
        OrderKey $order,
        Lines $lines,
        string $key,
        string $reason,
        string $from,
        string $disposition
    ): void {
        if ($lines->isEmpty()) {
            return;
        }
        $body = [
            'reason' => $reason,
            'lines' => $lines->toRequest($settings->location),
            'from' => $from,
            'disposition' => $disposition,
        ];
        $this->submit($settings, $order, QueueEntry::RETURN, $key, $body);
    }

    /** @param array<string, mixed> $body @throws Refusal @throws Unreachable */
    public function send(Settings $settings, string $reservationId, string $kind, string $key, array $body): void
    {
        $client = $this->clients->create($settings);
        match ($kind) {
            QueueEntry::FULFIL => $client->fulfil($reservationId, $body, $key),
            QueueEntry::RETURN => $client->returnUnits($reservationId, $body, $key),
        };
    }

    /** @param array<string, mixed> $body */
    private function submit(Settings $settings, OrderKey $order, string $kind, string $key, array $body): void
    {
        $reservationId = $this->queue->has($order) ? null : $this->records->reservationId($order);
        if ($reservationId === null) {
            $this->queue->add($order, $kind, $key, $body, $this->clock->now());
            return;
        }
        try {
            $this->send($settings, $reservationId, $kind, $key, $body);
        } catch (Unreachable | Refusal $error) {
            $this->queue->add($order, $kind, $key, $body, $this->clock->now());
            $this->logger->warning("Stockhold: {$kind} of order {$order->incrementId} is sent later: {$error->getMessage()}");
        }
    }
}
