<?php
/** Keeps what was logged. */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\Support;

use Psr\Log\LoggerInterface;

final class MemoryLogger implements LoggerInterface
{
    /** @var list<array{string, string}> level and message */
    public array $entries = [];

    public function emergency(string|\Stringable $message, array $context = []): void
    {
        $this->log('emergency', $message, $context);
    }

    public function alert(string|\Stringable $message, array $context = []): void
    {
        $this->log('alert', $message, $context);
    }

    public function critical(string|\Stringable $message, array $context = []): void
    {
        $this->log('critical', $message, $context);
    }

    public function error(string|\Stringable $message, array $context = []): void
    {
        $this->log('error', $message, $context);
    }

    public function warning(string|\Stringable $message, array $context = []): void
    {
        $this->log('warning', $message, $context);
    }

    public function notice(string|\Stringable $message, array $context = []): void
    {
        $this->log('notice', $message, $context);
    }

    public function info(string|\Stringable $message, array $context = []): void
    {
        $this->log('info', $message, $context);
    }

    public function debug(string|\Stringable $message, array $context = []): void
    {
        $this->log('debug', $message, $context);
    }

    public function log($level, string|\Stringable $message, array $context = []): void
    {
        $this->entries[] = [(string)$level, (string)$message];
    }

    public function text(string $level): string
    {
        $ofLevel = array_filter($this->entries, static fn (array $entry): bool => $entry[0] === $level);
        return implode("\n", array_column($ofLevel, 1));
    }
}
