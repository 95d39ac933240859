<?php
/** For whom a cart or an order is. */
declare(strict_types=1);

namespace Stockhold\Reservation\Model;

use Magento\Quote\Model\Quote;
use Magento\Sales\Model\Order;
use Stockhold\Reservation\Hold\Buyer;
use Stockhold\Reservation\Hold\Settings;

class BuyerFactory
{
    public function ofQuote(Quote $quote, Settings $settings): Buyer
    {
        return $this->buyer($quote->getId(), $quote->getCustomerId(), $quote->getCustomerGroupId(), $settings);
    }

    public function ofOrder(Order $order, Settings $settings): Buyer
    {
        return $this->buyer($order->getQuoteId(), $order->getCustomerId(), $order->getCustomerGroupId(), $settings);
    }

    private function buyer(mixed $quoteId, mixed $customerId, mixed $groupId, Settings $settings): Buyer
    {
        $customer = $customerId === null || (int)$customerId === 0 ? null : (int)$customerId;
        return new Buyer((int)$quoteId, $customer, $settings->termsOf((int)$groupId));
    }
}
