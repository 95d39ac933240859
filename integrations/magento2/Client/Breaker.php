<?php
/**
 * Circuit breaker: after 5 failures in 30 s, the service is not asked for 30 s, so that buyers do not wait for timeouts.
 * The first request after the pause is a trial: if it fails too, the next pause begins.
 */
declare(strict_types=1);

namespace Stockhold\Reservation\Client;

final class Breaker
{
    public const FAILURES = 5;
    public const WITHIN_SECONDS = 30.0;
    public const PAUSE_SECONDS = 30.0;

    public function __construct(
        private readonly BreakerStorage $storage,
        private readonly Clock $clock
    ) {
    }

    public function allows(string $name): bool
    {
        $state = $this->storage->read($name);
        return $state === null || $state['open_until'] <= $this->clock->now();
    }

    public function succeeded(string $name): void
    {
        if ($this->storage->read($name) !== null) {
            $this->storage->forget($name);
        }
    }

    public function failed(string $name): void
    {
        $now = $this->clock->now();
        $state = $this->storage->read($name) ?? ['failures' => [], 'open_until' => 0.0];
        $failures = array_values(array_filter(
            $state['failures'],
            static fn (float $at): bool => $at > $now - self::WITHIN_SECONDS
        ));
        $failures[] = $now;
        $isTrial = $state['open_until'] > 0.0;
        $opens = $isTrial || count($failures) >= self::FAILURES;
        $this->storage->write($name, [
            'failures' => $failures,
            'open_until' => $opens ? $now + self::PAUSE_SECONDS : 0.0,
        ]);
    }
}
