<?php
/** `sales_order_shipment_save_commit_after`: reports shipped units to Stockhold. It never throws. */
declare(strict_types=1);

namespace Stockhold\Reservation\Observer;

use Magento\Framework\Event\Observer;
use Magento\Framework\Event\ObserverInterface;
use Magento\Sales\Model\Order\Shipment;
use Psr\Log\LoggerInterface;
use Stockhold\Reservation\Model\OrderReports;

final class ReportShipment implements ObserverInterface
{
    public function __construct(
        private readonly OrderReports $reports,
        private readonly LoggerInterface $logger
    ) {
    }

    public function execute(Observer $observer): void
    {
        $shipment = $observer->getEvent()->getData('shipment');
        if (!$shipment instanceof Shipment) {
            return;
        }
        try {
            $this->reports->shipped($shipment->getOrder());
        } catch (\Throwable $error) {
            $number = $shipment->getIncrementId();
            $this->logger->critical("Stockhold: shipment {$number} was not reported: {$error->getMessage()}");
        }
    }
}
