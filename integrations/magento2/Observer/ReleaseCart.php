<?php
/** `sales_quote_delete_before` and `sales_model_service_quote_submit_failure`: gives back what the cart holds. It never throws. */
declare(strict_types=1);

namespace Stockhold\Reservation\Observer;

use Magento\Framework\Event\Observer;
use Magento\Framework\Event\ObserverInterface;
use Magento\Quote\Model\Quote;
use Psr\Log\LoggerInterface;
use Stockhold\Reservation\Hold\Holds;
use Stockhold\Reservation\Hold\SettingsSource;
use Stockhold\Reservation\Model\QuoteHolds;

final class ReleaseCart implements ObserverInterface
{
    public function __construct(
        private readonly SettingsSource $settings,
        private readonly Holds $holds,
        private readonly LoggerInterface $logger
    ) {
    }

    public function execute(Observer $observer): void
    {
        $quote = $observer->getEvent()->getData('quote');
        if (!$quote instanceof Quote || !$quote->getId()) {
            return;
        }
        try {
            $settings = $this->settings->ofStore((int)$quote->getStoreId());
            $reason = $observer->getEvent()->getData('order') === null ? 'the cart was deleted' : 'the order was not placed';
            $this->holds->release($settings, (int)$quote->getId(), $reason);
            $quote->setData(QuoteHolds::RESERVATION_ID, null);
            $quote->setData(QuoteHolds::HOLD, null);
        } catch (\Throwable $error) {
            $this->logger->warning("Stockhold: quote {$quote->getId()} was not released: {$error->getMessage()}");
        }
    }
}
