<?php
/** One HTTP answer. Names of headers are in lower case. */
declare(strict_types=1);

namespace Stockhold\Reservation\Client;

final class Answer
{
    /** @param array<string, string> $headers */
    public function __construct(
        public readonly int $status,
        public readonly string $body,
        public readonly array $headers = []
    ) {
    }

    /** @return array<string, mixed> the members of the body; empty if it is not a JSON object */
    public function members(): array
    {
        $value = json_decode($this->body, true);
        return is_array($value) ? $value : [];
    }
}
