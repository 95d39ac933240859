<?php
/** The shop's cache, in memory. */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\Support;

use Magento\Framework\App\CacheInterface;

final class MemoryCache implements CacheInterface
{
    /** @var array<string, string> */
    private array $entries = [];

    public function load($identifier)
    {
        return $this->entries[$identifier] ?? false;
    }

    public function save($data, $identifier, $tags = [], $lifeTime = null)
    {
        $this->entries[$identifier] = $data;
        return true;
    }

    public function remove($identifier)
    {
        unset($this->entries[$identifier]);
        return true;
    }
}
