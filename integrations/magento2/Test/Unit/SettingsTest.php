<?php
/** Settings are read as the administrator wrote them, and wrong ones are refused with their line. */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\Unit;

use Magento\Framework\Exception\LocalizedException;
use PHPUnit\Framework\TestCase;
use Stockhold\Reservation\Hold\Settings;
use Stockhold\Reservation\Hold\Terms;
use Stockhold\Reservation\Model\Config\Backend\GroupTerms;
use Stockhold\Reservation\Model\Config\Source\OnOutage;
use Stockhold\Reservation\Model\ConfigSettings;
use Stockhold\Reservation\Test\Support\Config;
use Stockhold\Reservation\Test\Support\Encryptor;
use Stockhold\Reservation\Test\Support\MemoryLogger;

final class SettingsTest extends TestCase
{
    private MemoryLogger $logger;

    /** @param array<string, string> $config */
    private function settings(array $config): Settings
    {
        $this->logger = new MemoryLogger();
        return (new ConfigSettings(new Config($config), new Encryptor(), $this->logger))->ofStore(1);
    }

    public function testTheDefaults(): void
    {
        $settings = $this->settings(['connection/url' => 'https://stock.example/']);
        self::assertSame([true, '', 600, 900, 'default', 3.0, true], [
            $settings->isEnabled, $settings->apiKey, $settings->ttlSeconds, $settings->paymentWindowSeconds,
            $settings->location, $settings->timeoutSeconds, $settings->refusesInOutage(),
        ]);
        self::assertTrue($settings->appliesTo('any') && $settings->termsOf(5)->equals(new Terms()));
    }

    public function testWithoutAnAddressNothingIsHeld(): void
    {
        self::assertFalse($this->settings([])->isEnabled);
        self::assertFalse($this->settings(['connection/url' => 'https://stock.example', 'general/enabled' => '0'])->isEnabled);
    }

    public function testTheKeyIsDecrypted(): void
    {
        self::assertSame('sh_live_1', $this->settings(['connection/api_key' => 'stored:sh_live_1'])->apiKey);
    }

    public function testSkusHaveWildcardsAndNothingElse(): void
    {
        $settings = $this->settings(['holds/skus' => " drop-* \r\n\r\nA.1\n*-last"]);
        $isHeld = array_map($settings->appliesTo(...), ['drop-1', 'drop-', 'xdrop-1', 'A.1', 'AB1', 'the-last', 'a.1']);
        self::assertSame([true, true, false, true, false, true, false], $isHeld);
    }

    public function testTermsByCustomerGroup(): void
    {
        $settings = $this->settings(['terms/channel' => 'web', 'terms/groups' => "2: channel=wholesale, pool=trade\n\n 3 : pool=vip"]);
        self::assertEquals(new Terms('web'), $settings->termsOf(0));
        self::assertEquals(new Terms('wholesale', 'trade'), $settings->termsOf(2));
        self::assertEquals(new Terms('', 'vip'), $settings->termsOf(3));
    }

    /** @dataProvider wrongTerms */
    public function testWrongTermsAreRefusedWithTheirLine(string $text, int $line): void
    {
        $value = new GroupTerms(['value' => $text]);
        try {
            $value->beforeSave();
            self::fail('It was accepted.');
        } catch (LocalizedException $error) {
            self::assertStringContainsString("Line {$line} is", $error->getMessage());
        }
        self::assertSame([], $this->settings(['terms/groups' => $text])->termsByGroup);
        self::assertStringContainsString('stockhold/terms/groups is not used', $this->logger->text('error'));
    }

    /** @return array<string, array{string, int}> */
    public static function wrongTerms(): array
    {
        return [
            'no colon' => ['2 channel=a', 1],
            'no group' => ["1: pool=a\nwholesale: channel=a", 2],
            'an unknown member' => ['2: chanel=a', 1],
            'an empty value' => ['2: channel=', 1],
            'no value' => ['2: channel', 1],
            'a group twice' => ["2: pool=a\n2: pool=b", 2],
        ];
    }

    public function testTheChoicesOfAnOutage(): void
    {
        self::assertSame(['refuse', 'msi'], array_column((new OnOutage())->toOptionArray(), 'value'));
        self::assertFalse($this->settings(['connection/on_outage' => 'msi'])->refusesInOutage());
    }
}
