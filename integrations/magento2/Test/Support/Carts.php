<?php
/** The carts of the shop, by id. */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\Support;

use Magento\Quote\Api\CartRepositoryInterface;

final class Carts implements CartRepositoryInterface
{
    /** @param array<int, \Magento\Quote\Model\Quote> $carts */
    public function __construct(private array &$carts)
    {
    }

    public function get($cartId, array $sharedStoreIds = [])
    {
        return $this->carts[$cartId];
    }
}
