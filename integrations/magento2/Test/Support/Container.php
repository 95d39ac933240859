<?php
/** Makes the module's classes as Magento does: by the types of their constructors and the preferences of `etc/di.xml`. */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\Support;

final class Container
{
    /** @var array<string, string> */
    private array $preferences = [];
    /** @var array<string, list<string>> */
    private array $plugins = [];
    /** @var array<string, list<string>> */
    private array $observers = [];

    /** @param array<string, object> $instances by class or interface */
    public function __construct(private array $instances)
    {
        $etc = dirname(__DIR__, 2) . '/etc';
        $di = simplexml_load_file("{$etc}/di.xml");
        foreach ($di->preference as $preference) {
            $this->preferences[(string)$preference['for']] = (string)$preference['type'];
        }
        foreach ($di->type as $type) {
            foreach ($type->plugin as $plugin) {
                $this->plugins[(string)$type['name']][] = (string)$plugin['type'];
            }
        }
        foreach (simplexml_load_file("{$etc}/events.xml")->event as $event) {
            foreach ($event->observer as $observer) {
                $this->observers[(string)$event['name']][] = (string)$observer['instance'];
            }
        }
    }

    /**
     * @template T of object
     * @param class-string<T> $class
     * @return T
     */
    public function get(string $class): object
    {
        return $this->instances[$class] ??= $this->make($this->preferences[$class] ?? $class);
    }

    /** The one plugin of a type. */
    public function plugin(string $type): object
    {
        return $this->get($this->plugins[$type][0]);
    }

    /** @param array<string, mixed> $data */
    public function dispatch(string $event, array $data): void
    {
        $dispatched = new \Magento\Framework\Event\Observer(['event' => new \Magento\Framework\DataObject($data)]);
        foreach ($this->observers[$event] ?? [] as $observer) {
            $this->get($observer)->execute($dispatched);
        }
    }

    private function make(string $class): object
    {
        if (isset($this->instances[$class])) {
            return $this->instances[$class];
        }
        $arguments = [];
        foreach ((new \ReflectionClass($class))->getConstructor()?->getParameters() ?? [] as $parameter) {
            $arguments[] = $this->get((string)$parameter->getType());
        }
        return $this->instances[$class] = new $class(...$arguments);
    }
}
