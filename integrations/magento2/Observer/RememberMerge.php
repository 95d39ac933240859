<?php
/** `sales_quote_merge_after`: a guest's cart was added to that of a customer. Their holds are merged when the cart is saved. */
declare(strict_types=1);

namespace Stockhold\Reservation\Observer;

use Magento\Framework\Event\Observer;
use Magento\Framework\Event\ObserverInterface;
use Magento\Quote\Model\Quote;

final class RememberMerge implements ObserverInterface
{
    /** Member of the quote, not a column. */
    public const MERGED = 'stockhold_merged_quotes';

    public function execute(Observer $observer): void
    {
        $quote = $observer->getEvent()->getData('quote');
        $source = $observer->getEvent()->getData('source');
        if ($quote instanceof Quote && $source instanceof Quote && $source->getId()) {
            $merged = (array)$quote->getData(self::MERGED);
            $merged[] = (int)$source->getId();
            $quote->setData(self::MERGED, $merged);
        }
    }
}
