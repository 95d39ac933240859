"""A proxy between a client and a server that loses answers: the server has done its work, and the client hears nothing."""

from __future__ import annotations

import socket
import threading
from urllib.parse import urlsplit


class LossyProxy:
    """Passes every connection on, and closes it before the answer of every second request. `refuse_next` answers by itself."""

    def __init__(self, server: str) -> None:
        address = urlsplit(server)
        self._server = (str(address.hostname), int(address.port or 80))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests = 0
        self.lost = 0
        self._refusals: list[bytes] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def refuse_next(self, times: int, retry_after: str) -> None:
        """Answers so many requests with a 503 that may be retried."""
        body = b'{"reason":"unavailable","retryable":true,"detail":"try again"}'
        head = f"HTTP/1.1 503 Service Unavailable\r\nretry-after: {retry_after}\r\ncontent-length: {len(body)}\r\n\r\n"
        self._refusals = [head.encode() + body] * times

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._server) as server:
            while True:
                request = read_message(client)
                if not request:
                    return
                with self._lock:
                    self.requests += 1
                    refusal = self._refusals.pop() if self._refusals else None
                    loses = refusal is None and self.requests % 2 == 1
                    self.lost += loses
                if refusal is not None:
                    client.sendall(refusal)
                    continue
                server.sendall(request)
                answer = read_message(server)
                if loses:
                    return
                client.sendall(answer)


def read_message(stream: socket.socket) -> bytes:
    """One message of HTTP/1.1 with a length, or nothing at the end."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = stream.recv(65_536)
        if not piece:
            return b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    while len(body) < (int(lengths[0]) if lengths else 0):
        piece = stream.recv(65_536)
        if not piece:
            return b""
        body += piece
    return head + b"\r\n\r\n" + body
