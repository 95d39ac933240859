<?php
/** The sales channel and the pool of a buyer's holds. Empty means none. */
declare(strict_types=1);

namespace Stockhold\Reservation\Hold;

final class Terms
{
    public function __construct(
        public readonly string $channel = '',
        public readonly string $pool = ''
    ) {
    }

    public function equals(self $other): bool
    {
        return $this->channel === $other->channel && $this->pool === $other->pool;
    }

    public function withoutPool(): self
    {
        return new self($this->channel);
    }

    /**
     * Reads one line for each customer group: `2: channel=wholesale, pool=trade`.
     *
     * @return array<int, self>
     * @throws \InvalidArgumentException with the line that is wrong
     */
    public static function parseByGroup(string $text): array
    {
        $byGroup = [];
        foreach (preg_split('/\R/', $text) ?: [] as $index => $line) {
            if (trim($line) === '') {
                continue;
            }
            $group = null;
            $members = [];
            if (preg_match('/^\s*(\d+)\s*:\s*(.+)$/', $line, $found) === 1) {
                $group = (int)$found[1];
                foreach (explode(',', $found[2]) as $pair) {
                    [$name, $value] = array_map('trim', explode('=', $pair, 2)) + [1 => ''];
                    $members[$name] = $value;
                }
            }
            $unknown = array_diff_key($members, ['channel' => 1, 'pool' => 1]);
            if ($group === null || $unknown !== [] || in_array('', $members, true) || isset($byGroup[$group])) {
                $number = $index + 1;
                throw new \InvalidArgumentException(
                    "Line {$number} is \"{$line}\". A line is a customer group id that occurs once, a colon, and channel=NAME,"
                    . ' pool=NAME or both, such as "2: channel=wholesale, pool=trade".'
                );
            }
            $byGroup[$group] = new self($members['channel'] ?? '', $members['pool'] ?? '');
        }
        return $byGroup;
    }
}
