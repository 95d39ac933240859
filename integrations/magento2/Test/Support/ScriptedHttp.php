<?php
/** Gives prepared answers, and keeps the requests. Null stands for a lost answer. */
declare(strict_types=1);

namespace Stockhold\Reservation\Test\Support;

use Stockhold\Reservation\Client\Answer;
use Stockhold\Reservation\Client\Http;
use Stockhold\Reservation\Client\NoAnswer;
use Stockhold\Reservation\Client\Request;

final class ScriptedHttp implements Http
{
    /** @var list<Request> */
    public array $requests = [];

    /** @param list<Answer|null> $answers */
    public function __construct(private array $answers)
    {
    }

    public function send(Request $request): Answer
    {
        $this->requests[] = $request;
        if ($this->answers === []) {
            throw new \LogicException("No answer is prepared for {$request->method} {$request->url}");
        }
        return array_shift($this->answers) ?? throw new NoAnswer('lost');
    }
}
