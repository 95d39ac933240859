<?php
/** `sales_order_save_commit_after`: reports cancelled lines to Stockhold. It never throws. */
declare(strict_types=1);

namespace Stockhold\Reservation\Observer;

use Magento\Framework\Event\Observer;
use Magento\Framework\Event\ObserverInterface;
use Magento\Sales\Model\Order;
use Psr\Log\LoggerInterface;
use Stockhold\Reservation\Model\Cancellations;
use Stockhold\Reservation\Model\OrderReports;

final class ReportCancel implements ObserverInterface
{
    public function __construct(
        private readonly Cancellations $cancellations,
        private readonly OrderReports $reports,
        private readonly LoggerInterface $logger
    ) {
    }

    public function execute(Observer $observer): void
    {
        $order = $observer->getEvent()->getData('order');
        if (!$order instanceof Order) {
            return;
        }
        try {
            $this->reports->cancelled($order, $this->cancellations->take($order));
        } catch (\Throwable $error) {
            $number = $order->getIncrementId();
            $this->logger->critical("Stockhold: the cancellation of order {$number} was not reported: {$error->getMessage()}");
        }
    }
}
