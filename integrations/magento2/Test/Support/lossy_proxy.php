<?php
/**
 * A proxy that loses every second answer: the server has done its work, and the client hears nothing. It prints its address. Its
 * arguments are the address of the server, and 1 if it loses answers. It serves one connection at a time, and one request on each.
 */
declare(strict_types=1);

/** One message of HTTP/1.1 with a length; empty at the end. */
function read_message($stream): string
{
    $data = '';
    while (($end = strpos($data, "\r\n\r\n")) === false) {
        $piece = fread($stream, 65_536);
        if ($piece === false || $piece === '') {
            return '';
        }
        $data .= $piece;
    }
    $length = preg_match('/^content-length:\s*(\d+)/mi', substr($data, 0, $end + 2), $found) === 1 ? (int)$found[1] : 0;
    while (strlen($data) < $end + 4 + $length) {
        $piece = fread($stream, 65_536);
        if ($piece === false || $piece === '') {
            return '';
        }
        $data .= $piece;
    }
    return $data;
}

$server = parse_url($argv[1]);
$listener = stream_socket_server('tcp://127.0.0.1:0');
echo 'http://' . stream_socket_get_name($listener, false) . "\n";
for ($requests = 0;;) {
    $client = @stream_socket_accept($listener, 3600.0);
    if ($client === false) {
        exit(0);
    }
    $request = read_message($client);
    if ($request !== '') {
        ++$requests;
        $upstream = stream_socket_client("tcp://{$server['host']}:{$server['port']}");
        fwrite($upstream, $request);
        $answer = read_message($upstream);
        fclose($upstream);
        if ($requests % 2 === 0 || $argv[2] !== '1') {
            fwrite($client, $answer);
        }
    }
    fclose($client);
}
