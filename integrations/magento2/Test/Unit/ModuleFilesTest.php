<?php
/** The files that Magento reads: well-formed, and about classes, columns and settings that exist. */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\Unit;

use PHPUnit\Framework\TestCase;
use Stockhold\Reservation\Model\DbOrderRecords;
use Stockhold\Reservation\Model\QuoteHolds;

final class ModuleFilesTest extends TestCase
{
    private const ROOT = __DIR__ . '/../..';

    /** @return list<string> */
    private static function xmlFiles(): array
    {
        return array_merge(glob(self::ROOT . '/etc/*.xml'), glob(self::ROOT . '/etc/*/*.xml'));
    }

    public function testEveryXmlFileIsWellFormedAndNamesItsSchema(): void
    {
        self::assertCount(9, self::xmlFiles());
        foreach (self::xmlFiles() as $file) {
            $document = new \DOMDocument();
            self::assertTrue($document->load($file), $file);
            self::assertStringStartsWith('urn:magento:', $document->documentElement->getAttribute('xsi:noNamespaceSchemaLocation'));
        }
    }

    public function testEveryClassThatTheyNameExists(): void
    {
        $names = [];
        foreach (self::xmlFiles() as $file) {
            preg_match_all('/Stockhold\\\\Reservation\\\\[A-Za-z\\\\]+/', (string)file_get_contents($file), $found);
            $names = [...$names, ...$found[0]];
        }
        self::assertGreaterThan(20, count($names));
        foreach (array_unique($names) as $name) {
            self::assertTrue(class_exists($name) || interface_exists($name), $name);
        }
    }

    public function testEverySettingThatIsReadCanBeSet(): void
    {
        $code = (string)file_get_contents(self::ROOT . '/Model/ConfigSettings.php');
        preg_match_all('~\'(?:stockhold/)?([a-z]+/[a-z_]+)\'~', $code, $read);
        $set = [];
        foreach (simplexml_load_file(self::ROOT . '/etc/adminhtml/system.xml')->system->section->group as $group) {
            foreach ($group->field as $field) {
                $set[] = "{$group['id']}/{$field['id']}";
            }
        }
        self::assertEqualsCanonicalizing($set, array_values(array_unique($read[1])));
    }

    public function testTheKeyIsStoredEncryptedAndNotExported(): void
    {
        $field = simplexml_load_file(self::ROOT . '/etc/adminhtml/system.xml')->xpath('//field[@id="api_key"]')[0];
        self::assertSame('Magento\Config\Model\Config\Backend\Encrypted', (string)$field->backend_model);
        self::assertSame('obscure', (string)$field['type']);
        $di = simplexml_load_file(self::ROOT . '/etc/di.xml');
        self::assertCount(1, $di->xpath('//argument[@name="sensitive"]/item[@name="stockhold/connection/api_key"]'));
    }

    public function testEveryColumnThatIsUsedIsDeclared(): void
    {
        $schema = simplexml_load_file(self::ROOT . '/etc/db_schema.xml');
        $declared = [];
        foreach ($schema->table as $table) {
            foreach ($table->column as $column) {
                $declared[(string)$table['name']][] = (string)$column['name'];
            }
        }
        self::assertSame([QuoteHolds::RESERVATION_ID, QuoteHolds::HOLD], $declared['quote']);
        self::assertSame([DbOrderRecords::STATE], $declared['sales_order']);
        self::assertSame([DbOrderRecords::CREDITMEMO_BOOKED], $declared['sales_creditmemo']);
        self::assertSame([
            DbOrderRecords::RESERVATION_ID,
            DbOrderRecords::SKU,
            DbOrderRecords::QUANTITY,
            DbOrderRecords::SHIPPED,
            DbOrderRecords::CANCELLED,
            DbOrderRecords::REFUNDED_UNSHIPPED,
        ], $declared['sales_order_item']);
        $whitelist = json_decode((string)file_get_contents(self::ROOT . '/etc/db_schema_whitelist.json'), true);
        foreach ($declared as $table => $columns) {
            self::assertSame($columns, array_keys($whitelist[$table]['column']), $table);
        }
    }

    public function testEveryFileOfPhpIsStrictAndParses(): void
    {
        $files = new \RecursiveIteratorIterator(new \RecursiveDirectoryIterator(self::ROOT, \FilesystemIterator::SKIP_DOTS));
        $checked = 0;
        foreach ($files as $file) {
            if ($file->getExtension() !== 'php') {
                continue;
            }
            $code = (string)file_get_contents($file->getPathname());
            self::assertStringContainsString("declare(strict_types=1);", $code, $file->getPathname());
            self::assertNotEmpty(token_get_all($code, TOKEN_PARSE));
            ++$checked;
        }
        self::assertGreaterThan(60, $checked);
    }
}
