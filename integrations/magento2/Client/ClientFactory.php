<?php
/** Makes the client for the settings of a website. */
declare(strict_types=1);

namespace Stockhold\Reservation\Client;

use Stockhold\Reservation\Hold\Settings;

class ClientFactory
{
    public function __construct(
        private readonly Http $http,
        private readonly Breaker $breaker,
        private readonly Clock $clock
    ) {
    }

    public function create(Settings $settings): Client
    {
        return new Client(
            $this->http,
            $this->breaker,
            $this->clock,
            rtrim($settings->url, '/'),
            $settings->apiKey,
            $settings->timeoutSeconds
        );
    }
}
