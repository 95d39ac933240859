<?php
/** Extends the hold at the steps of the checkout: the address and shipping method, and the payment method. REST and GraphQL use both. */
declare(strict_types=1);

namespace Stockhold\Reservation\Plugin;

use Magento\Checkout\Api\ShippingInformationManagementInterface;
use Magento\Quote\Api\CartRepositoryInterface;
use Magento\Quote\Api\PaymentMethodManagementInterface;
use Psr\Log\LoggerInterface;
use Stockhold\Reservation\Hold\Holds;
use Stockhold\Reservation\Hold\SettingsSource;

final class ExtendHold
{
    public function __construct(
        private readonly SettingsSource $settings,
        private readonly CartRepositoryInterface $carts,
        private readonly Holds $holds,
        private readonly LoggerInterface $logger
    ) {
    }

    public function afterSaveAddressInformation(ShippingInformationManagementInterface $subject, mixed $result, mixed $cartId): mixed
    {
        $this->extend((int)$cartId);
        return $result;
    }

    public function afterSet(PaymentMethodManagementInterface $subject, mixed $result, mixed $cartId): mixed
    {
        $this->extend((int)$cartId);
        return $result;
    }

    private function extend(int $cartId): void
    {
        try {
            $settings = $this->settings->ofStore((int)$this->carts->get($cartId)->getStoreId());
            if ($settings->isEnabled) {
                $this->holds->extend($settings, $cartId);
            }
        } catch (\Throwable $error) {
            $this->logger->warning("Stockhold: the hold of quote {$cartId} was not extended: {$error->getMessage()}");
        }
    }
}
