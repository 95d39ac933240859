<?php
/** Sends requests with curl. One handle serves all requests of a process, so that its connection is used again. */
declare(strict_types=1);

namespace Stockhold\Reservation\Client;

final class CurlHttp implements Http
{
    private const CONNECT_SECONDS = 1.0;

    private ?\CurlHandle $handle = null;

    public function send(Request $request): Answer
    {
        $this->handle ??= curl_init();
        $headers = [];
        curl_reset($this->handle);
        curl_setopt_array($this->handle, [
            CURLOPT_URL => $request->url,
            CURLOPT_CUSTOMREQUEST => $request->method,
            CURLOPT_HTTPHEADER => $this->headerLines($request),
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_FOLLOWLOCATION => false,
            CURLOPT_PROTOCOLS => CURLPROTO_HTTP | CURLPROTO_HTTPS,
            CURLOPT_CONNECTTIMEOUT_MS => (int)(min(self::CONNECT_SECONDS, $request->timeoutSeconds) * 1000),
            CURLOPT_TIMEOUT_MS => (int)($request->timeoutSeconds * 1000),
            // Timeouts below a second need this where names are resolved with signals.
            CURLOPT_NOSIGNAL => true,
            CURLOPT_HEADERFUNCTION => static function (\CurlHandle $handle, string $line) use (&$headers): int {
                $parts = explode(':', $line, 2);
                if (count($parts) === 2) {
                    $headers[strtolower(trim($parts[0]))] = trim($parts[1]);
                }
                return strlen($line);
            },
        ]);
        if ($request->body !== null) {
            curl_setopt($this->handle, CURLOPT_POSTFIELDS, $request->body);
        }
        $body = curl_exec($this->handle);
        if (!is_string($body)) {
            throw new NoAnswer(curl_error($this->handle));
        }
        return new Answer((int)curl_getinfo($this->handle, CURLINFO_RESPONSE_CODE), $body, $headers);
    }

    /** @return list<string> */
    private function headerLines(Request $request): array
    {
        // Without this, curl waits for "100 Continue" before it sends a long body.
        $lines = ['Expect:'];
        foreach ($request->headers as $name => $value) {
            $lines[] = "{$name}: {$value}";
        }
        return $lines;
    }
}
