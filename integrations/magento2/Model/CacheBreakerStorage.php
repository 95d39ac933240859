<?php
/** Keeps circuit breakers in the cache of the shop, so that all its processes share them. */
declare(strict_types=1);

namespace Stockhold\Reservation\Model;

use Magento\Framework\App\CacheInterface;
use Stockhold\Reservation\Client\BreakerStorage;

final class CacheBreakerStorage implements BreakerStorage
{
    /** Longer than a breaker counts failures or pauses. After that, an entry means nothing. */
    private const LIFETIME_SECONDS = 120;

    public function __construct(private readonly CacheInterface $cache)
    {
    }

    public function read(string $name): ?array
    {
        $state = json_decode((string)$this->cache->load($this->id($name)), true);
        if (!is_array($state) || !isset($state['failures'], $state['open_until'])) {
            return null;
        }
        return [
            'failures' => array_values(array_map('floatval', (array)$state['failures'])),
            'open_until' => (float)$state['open_until'],
        ];
    }

    public function write(string $name, array $state): void
    {
        $this->cache->save(json_encode($state, JSON_THROW_ON_ERROR), $this->id($name), [], self::LIFETIME_SECONDS);
    }

    public function forget(string $name): void
    {
        $this->cache->remove($this->id($name));
    }

    private function id(string $name): string
    {
        return 'stockhold_breaker_' . hash('sha256', $name);
    }
}
