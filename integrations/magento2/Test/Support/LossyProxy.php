<?php
/** The proxy that loses answers, as a process of a test. It can be stopped while the shop uses it. */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\Support;

final class LossyProxy
{
    public readonly string $url;
    /** @var resource */
    private $process;
    /** @var array<int, resource> */
    private array $pipes = [];

    public function __construct(string $server, bool $losesAnswers = true)
    {
        $command = [PHP_BINARY, __DIR__ . '/lossy_proxy.php', $server, $losesAnswers ? '1' : '0'];
        $this->process = proc_open($command, [1 => ['pipe', 'w']], $this->pipes);
        $this->url = trim((string)fgets($this->pipes[1]));
    }

    public function stop(): void
    {
        proc_terminate($this->process);
        proc_close($this->process);
    }
}
