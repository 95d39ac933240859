<?php
/** Gives back what a cart holds when a payment method reports that the payment has failed. The next save of the cart holds it again. */
declare(strict_types=1);

namespace Stockhold\Reservation\Plugin;

use Magento\Quote\Api\CartRepositoryInterface;
use Magento\Sales\Api\PaymentFailuresInterface;
use Psr\Log\LoggerInterface;
use Stockhold\Reservation\Hold\Holds;
use Stockhold\Reservation\Hold\SettingsSource;

final class ReleaseAfterPaymentFailure
{
    public function __construct(
        private readonly SettingsSource $settings,
        private readonly CartRepositoryInterface $carts,
        private readonly Holds $holds,
        private readonly LoggerInterface $logger
    ) {
    }

    public function afterHandle(
        PaymentFailuresInterface $subject,
        PaymentFailuresInterface $result,
        int $cartId
    ): PaymentFailuresInterface {
        try {
            $settings = $this->settings->ofStore((int)$this->carts->get($cartId)->getStoreId());
            $this->holds->release($settings, $cartId, 'the payment failed');
        } catch (\Throwable $error) {
            $this->logger->warning("Stockhold: quote {$cartId} was not released: {$error->getMessage()}");
        }
        return $result;
    }
}
