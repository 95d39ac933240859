<?php
/** Stand-ins of Magento's framework and of PSR-3: the members that the module uses, with their signatures. For tests only. */
declare(strict_types=1);

namespace {
    function __(string $text, mixed ...$arguments): \Magento\Framework\Phrase
    {
        return new \Magento\Framework\Phrase($text, $arguments);
    }
}

namespace Psr\Log {
    interface LoggerInterface
    {
        public function emergency(string|\Stringable $message, array $context = []): void;
        public function alert(string|\Stringable $message, array $context = []): void;
        public function critical(string|\Stringable $message, array $context = []): void;
        public function error(string|\Stringable $message, array $context = []): void;
        public function warning(string|\Stringable $message, array $context = []): void;
        public function notice(string|\Stringable $message, array $context = []): void;
        public function info(string|\Stringable $message, array $context = []): void;
        public function debug(string|\Stringable $message, array $context = []): void;
        public function log($level, string|\Stringable $message, array $context = []): void;
    }
}

namespace Magento\Framework {
    class Phrase
    {
        public function __construct(private string $text, private array $arguments = [])
        {
        }

        public function __toString(): string
        {
            $names = array_map(static fn (int $index): string => '%' . ($index + 1), array_keys($this->arguments));
            return strtr($this->text, array_combine($names, array_map('strval', $this->arguments)));
        }
    }

    class DataObject
    {
        public function __construct(protected array $data = [])
        {
        }

        public function getData($key = '', $index = null)
        {
            return $key === '' ? $this->data : ($this->data[$key] ?? null);
        }

        public function setData($key, $value = null)
        {
            $this->data[$key] = $value;
            return $this;
        }

        public function unsetData($key = null)
        {
            unset($this->data[$key]);
            return $this;
        }

        public function getId()
        {
            return $this->getData('entity_id');
        }

        public function __call($method, $arguments)
        {
            $name = strtolower((string)preg_replace('/(?<!^)[A-Z]/', '_$0', substr($method, 3)));
            return match (substr($method, 0, 3)) {
                'get' => $this->getData($name),
                'set' => $this->setData($name, $arguments[0] ?? null),
                default => throw new \BadMethodCallException(static::class . "::{$method}"),
            };
        }
    }
}

namespace Magento\Framework\Exception {
    class LocalizedException extends \Exception
    {
        public function __construct(\Magento\Framework\Phrase $phrase, ?\Exception $cause = null, $code = 0)
        {
            parent::__construct((string)$phrase, $code, $cause);
        }
    }
}

namespace Magento\Framework\Event {
    class Observer extends \Magento\Framework\DataObject
    {
        public function getEvent()
        {
            return $this->getData('event');
        }
    }

    interface ObserverInterface
    {
        public function execute(Observer $observer);
    }
}

namespace Magento\Framework\App {
    interface CacheInterface
    {
        public function load($identifier);
        public function save($data, $identifier, $tags = [], $lifeTime = null);
        public function remove($identifier);
    }

    class ResourceConnection
    {
        public function __construct(private \Magento\Framework\DB\Adapter\AdapterInterface $adapter)
        {
        }

        public function getConnection($resourceName = 'default')
        {
            return $this->adapter;
        }

        public function getTableName($modelEntity, $connectionName = 'default')
        {
            return $modelEntity;
        }
    }
}

namespace Magento\Framework\App\Config {
    interface ScopeConfigInterface
    {
        public function getValue($path, $scopeType = 'default', $scopeCode = null);
        public function isSetFlag($path, $scopeType = 'default', $scopeCode = null);
    }

    class Value extends \Magento\Framework\DataObject
    {
        public function beforeSave()
        {
            return $this;
        }
    }
}

namespace Magento\Framework\DB\Adapter {
    interface AdapterInterface
    {
        public function fetchAll($sql, $bind = [], $fetchMode = null);
        public function fetchRow($sql, $bind = [], $fetchMode = null);
        public function fetchOne($sql, $bind = []);
        public function insert($table, array $bind);
        public function update($table, array $bind, $where = '');
        public function delete($table, $where = '');
        public function lastInsertId($tableName = null, $primaryKey = null);
    }
}

namespace Magento\Framework\DB\Sql {
    class Expression
    {
        public function __construct(private string $expression)
        {
        }

        public function __toString(): string
        {
            return $this->expression;
        }
    }
}

namespace Magento\Framework\Encryption {
    interface EncryptorInterface
    {
        public function encrypt($data);
        public function decrypt($data);
    }
}

namespace Magento\Framework\Data {
    interface OptionSourceInterface
    {
        public function toOptionArray();
    }
}

namespace Magento\Framework\Message {
    interface ManagerInterface
    {
        public function addNoticeMessage($message, $group = null);
    }
}
