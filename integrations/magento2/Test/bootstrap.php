<?php
/** Loads the module and the stand-ins of the framework. */
declare(strict_types=1);

foreach (['framework', 'quote', 'sales'] as $stubs) {
    require __DIR__ . "/stubs/{$stubs}.php";
}
spl_autoload_register(static function (string $class): void {
    $prefix = 'Stockhold\\Reservation\\';
    $file = dirname(__DIR__) . '/' . strtr(substr($class, strlen($prefix)), '\\', '/') . '.php';
    if (str_starts_with($class, $prefix) && is_file($file)) {
        require $file;
    }
});
