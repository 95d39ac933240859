"""The HTTP interface of ClickHouse, as much of it as the sink needs, in front of the engine of ClickHouse in this process (chdb).

    clickhouse_shim.py PORT DIRECTORY USER PASSWORD

A stand-in for tests: the engine is real, the server is not.
"""

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from chdb import session

port, directory, user, password = sys.argv[1:]
engine = session.Session(directory)
one_at_a_time = threading.Lock()
# What the server answers for a table that does not exist.
UNKNOWN_TABLE = "UNKNOWN_TABLE"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        query = parse_qs(urlsplit(self.path).query)["query"][0]
        if (self.headers.get("X-ClickHouse-User"), self.headers.get("X-ClickHouse-Key")) != (user, password):
            return self.answer(403, "Code: 516. DB::Exception: Authentication failed. (AUTHENTICATION_FAILED)")
        try:
            with one_at_a_time:
                rows = engine.query(f"{query}\n{body}", "JSONEachRow").bytes().decode()
        except Exception as error:
            return self.answer(404 if UNKNOWN_TABLE in str(error) else 400, str(error))
        self.answer(200, rows)

    def answer(self, status, text):
        content = text.encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()
