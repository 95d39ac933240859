<?php
/** The shop's configuration: the defaults of `etc/config.xml`, and what a test sets. */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\Support;

use Magento\Framework\App\Config\ScopeConfigInterface;

final class Config implements ScopeConfigInterface
{
    /** @var array<string, string> */
    private array $values = [];

    /** @param array<string, string> $values by path below `stockhold/` */
    public function __construct(array $values)
    {
        $defaults = simplexml_load_file(dirname(__DIR__, 2) . '/etc/config.xml')->default->stockhold;
        foreach ($defaults->children() as $group) {
            foreach ($group->children() as $field) {
                $this->values["stockhold/{$group->getName()}/{$field->getName()}"] = (string)$field;
            }
        }
        foreach ($values + ['general/enabled' => '1'] as $path => $value) {
            $this->values["stockhold/{$path}"] = $value;
        }
    }

    public function set(string $path, string $value): void
    {
        $this->values["stockhold/{$path}"] = $value;
    }

    public function getValue($path, $scopeType = 'default', $scopeCode = null)
    {
        return $this->values[$path] ?? null;
    }

    public function isSetFlag($path, $scopeType = 'default', $scopeCode = null)
    {
        return (bool)$this->getValue($path, $scopeType, $scopeCode);
    }
}
