<?php
/** `sales_order_creditmemo_save_commit_after`: reports returned units to Stockhold. It never throws. */
declare(strict_types=1);

namespace Stockhold\Reservation\Observer;

use Magento\Framework\Event\Observer;
use Magento\Framework\Event\ObserverInterface;
use Magento\Sales\Model\Order\Creditmemo;
use Psr\Log\LoggerInterface;
use Stockhold\Reservation\Model\OrderReports;

final class ReportCreditmemo implements ObserverInterface
{
    public function __construct(
        private readonly OrderReports $reports,
        private readonly LoggerInterface $logger
    ) {
    }

    public function execute(Observer $observer): void
    {
        $creditmemo = $observer->getEvent()->getData('creditmemo');
        if (!$creditmemo instanceof Creditmemo) {
            return;
        }
        try {
            $this->reports->refunded($creditmemo);
        } catch (\Throwable $error) {
            $number = $creditmemo->getIncrementId();
            $this->logger->critical("Stockhold: credit memo {$number} was not reported: {$error->getMessage()}");
        }
    }
}
