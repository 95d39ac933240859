<?php
/** Shows the buyer on the pages of the cart and the checkout how long the cart is held. It asks nobody: the quote knows the deadline. */
declare(strict_types=1);

namespace Stockhold\Reservation\Observer;

use Magento\Checkout\Model\Session;
use Magento\Framework\Event\Observer;
use Magento\Framework\Event\ObserverInterface;
use Magento\Framework\Message\ManagerInterface;
use Psr\Log\LoggerInterface;
use Stockhold\Reservation\Client\Clock;
use Stockhold\Reservation\Hold\BuyerMessages;
use Stockhold\Reservation\Hold\Holds;

final class ShowTimeLeft implements ObserverInterface
{
    public function __construct(
        private readonly Session $session,
        private readonly Holds $holds,
        private readonly ManagerInterface $messages,
        private readonly Clock $clock,
        private readonly LoggerInterface $logger
    ) {
    }

    public function execute(Observer $observer): void
    {
        try {
            $hold = $this->holds->find((int)$this->session->getQuoteId());
            if ($hold !== null && $hold->isCurrent($this->clock->now())) {
                [$template, $arguments] = BuyerMessages::timeLeft($hold->secondsLeft($this->clock->now()));
                $this->messages->addNoticeMessage(__($template, ...$arguments));
            }
        } catch (\Throwable $error) {
            $this->logger->warning("Stockhold: the time left was not shown: {$error->getMessage()}");
        }
    }
}
