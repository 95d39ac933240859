<?php
/** Settings from the configuration of the shop (Stores > Configuration > Sales > Stockhold). */
declare(strict_types=1);

namespace Stockhold\Reservation\Model;

use Magento\Framework\App\Config\ScopeConfigInterface;
use Magento\Framework\Encryption\EncryptorInterface;
use Psr\Log\LoggerInterface;
use Stockhold\Reservation\Hold\Settings;
use Stockhold\Reservation\Hold\SettingsSource;
use Stockhold\Reservation\Hold\Terms;

final class ConfigSettings implements SettingsSource
{
    private const SCOPE_STORE = 'store';

    public function __construct(
        private readonly ScopeConfigInterface $config,
        private readonly EncryptorInterface $encryptor,
        private readonly LoggerInterface $logger
    ) {
    }

    public function ofStore(int $storeId): Settings
    {
        $url = $this->text('connection/url', $storeId);
        return new Settings(
            isEnabled: $url !== '' && $this->config->isSetFlag('stockhold/general/enabled', self::SCOPE_STORE, $storeId),
            url: $url,
            apiKey: $this->encryptor->decrypt($this->text('connection/api_key', $storeId)),
            ttlSeconds: max(1, (int)$this->text('holds/ttl_seconds', $storeId)),
            paymentWindowSeconds: max(1, (int)$this->text('holds/payment_window_seconds', $storeId)),
            onOutage: $this->text('connection/on_outage', $storeId),
            skuPatterns: $this->lines('holds/skus', $storeId),
            location: $this->text('holds/location', $storeId),
            terms: new Terms($this->text('terms/channel', $storeId), $this->text('terms/pool', $storeId)),
            termsByGroup: $this->termsByGroup($storeId),
            timeoutSeconds: max(0.1, (float)$this->text('connection/timeout_seconds', $storeId))
        );
    }

    private function text(string $path, int $storeId): string
    {
        return trim((string)$this->config->getValue("stockhold/{$path}", self::SCOPE_STORE, $storeId));
    }

    /** @return list<string> */
    private function lines(string $path, int $storeId): array
    {
        $lines = array_map('trim', preg_split('/\R/', $this->text($path, $storeId)) ?: []);
        return array_values(array_filter($lines, static fn (string $line): bool => $line !== ''));
    }

    /** @return array<int, Terms> */
    private function termsByGroup(int $storeId): array
    {
        try {
            return Terms::parseByGroup($this->text('terms/groups', $storeId));
        } catch (\InvalidArgumentException $error) {
            // The form refuses such a text. It can come from a file or an import.
            $this->logger->error("Stockhold: stockhold/terms/groups is not used: {$error->getMessage()}");
            return [];
        }
    }
}
