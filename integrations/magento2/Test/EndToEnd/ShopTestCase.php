<?php
/** A shop against a running Stockhold (`STOCKHOLD_SERVER`), and the counters of its items. */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\EndToEnd;

use PHPUnit\Framework\TestCase;
use Stockhold\Reservation\Client\CurlHttp;
use Stockhold\Reservation\Client\Request;
use Stockhold\Reservation\Test\Support\Shop;

abstract class ShopTestCase extends TestCase
{
    protected Shop $shop;
    protected string $server;
    private CurlHttp $http;

    protected function setUp(): void
    {
        $server = getenv('STOCKHOLD_SERVER');
        if (!is_string($server) || $server === '') {
            self::fail('Set STOCKHOLD_SERVER to the address of a running Stockhold.');
        }
        $this->server = rtrim($server, '/');
        $this->http = new CurlHttp();
        $this->shop = new Shop($this->server);
    }

    /** A new item. */
    protected function item(int $units, string $name = 'item'): string
    {
        $sku = "magento-{$name}-" . bin2hex(random_bytes(6));
        $this->call('PUT', "/v1/inventory/{$sku}", ['total_units' => $units]);
        return $sku;
    }

    /** @param array<string, int> $expected */
    protected function assertItem(array $expected, string $sku): void
    {
        $item = $this->call('GET', "/v1/inventory/{$sku}");
        foreach ($expected as $name => $value) {
            self::assertSame($value, $item[$name], "{$name} of " . json_encode($item));
        }
    }

    protected function assertHeld(int $held, int $sold, string $sku): void
    {
        $this->assertItem(['held_units' => $held, 'confirmed_sold' => $sold], $sku);
    }

    /** @return array<string, mixed> */
    protected function reservation(string $id): array
    {
        return $this->call('GET', "/v1/reservations/{$id}");
    }

    /** @return array<string, mixed> */
    protected function call(string $method, string $path, ?array $body = null): array
    {
        $content = $body === null ? null : json_encode($body);
        $headers = $body === null ? [] : ['Content-Type' => 'application/json'];
        $answer = $this->http->send(new Request($method, $this->server . $path, $headers, $content, 10.0));
        self::assertLessThan(300, $answer->status, "{$method} {$path}: {$answer->body}");
        return $answer->members();
    }

    /** An address where nothing answers. */
    protected function deadAddress(): string
    {
        $socket = stream_socket_server('tcp://127.0.0.1:0');
        $name = stream_socket_get_name($socket, false);
        fclose($socket);
        return "http://{$name}";
    }
}
