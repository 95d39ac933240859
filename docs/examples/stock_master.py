#!/usr/bin/env python3
"""A stock master that speaks Stockhold's JSON form. Its books are a SQLite file.

    python3 stock_master.py books.db 8200 TOKEN

To put it in front of an ERP, replace the four functions that touch the books.
"""

import json
import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PAGE = 500


def open_books(path):
    books = sqlite3.connect(path, isolation_level=None, timeout=10)
    books.execute("PRAGMA journal_mode=WAL")
    books.execute("CREATE TABLE IF NOT EXISTS stock (sku, location, quantity INTEGER, PRIMARY KEY (location, sku))")
    books.execute("CREATE TABLE IF NOT EXISTS batches (number INTEGER PRIMARY KEY, batch_id UNIQUE, lines)")
    books.execute("CREATE TABLE IF NOT EXISTS orders (order_id PRIMARY KEY, placed_at)")
    return books


def read_stock(books, cursor):
    """One page of figures, in the order of (location, sku). The cursor is the last pair of the page before."""
    after = json.loads(cursor) if cursor else ["", ""]
    rows = books.execute(
        "SELECT location, sku, quantity FROM stock WHERE (location, sku) > (?, ?) ORDER BY 1, 2 LIMIT ?",
        (*after, PAGE),
    ).fetchall()
    newest = books.execute("SELECT batch_id FROM batches ORDER BY number DESC LIMIT 1").fetchone()
    return {
        "items": [{"location": location, "sku": sku, "quantity": units} for location, sku, units in rows],
        "next_cursor": json.dumps(rows[-1][:2]) if len(rows) == PAGE else None,
        "booked_batch": newest[0] if newest else None,
    }


def book_batch(books, batch):
    """Books a batch once, however often it comes. All of it or nothing."""
    books.execute("BEGIN IMMEDIATE")
    try:
        lines = json.dumps(batch["lines"], sort_keys=True)
        known = books.execute("SELECT lines FROM batches WHERE batch_id = ?", (batch["batch_id"],)).fetchone()
        if known:
            return (200, {"batch_id": batch["batch_id"]}) if known[0] == lines else (409, {"error": "this batch had other lines before"})
        for line in batch["lines"]:
            changed = books.execute(
                "UPDATE stock SET quantity = quantity - ? WHERE location = ? AND sku = ?",
                (line["quantity"], line["location"], line["sku"]),
            )
            if changed.rowcount == 0:
                books.execute("ROLLBACK")
                return 422, {"error": f"no stock of {line['sku']} at {line['location']}"}
            for order_id in line["order_ids"]:
                now = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
                books.execute(f"INSERT OR IGNORE INTO orders VALUES (?, {now})", (order_id,))
        books.execute("INSERT INTO batches (batch_id, lines) VALUES (?, ?)", (batch["batch_id"], lines))
        return 200, {"batch_id": batch["batch_id"]}
    finally:
        if books.in_transaction:
            books.execute("COMMIT")


def read_orders(books, since):
    rows = books.execute("SELECT order_id, placed_at FROM orders WHERE placed_at >= ?", (since,))
    return {"orders": [{"order_id": order, "placed_at": at} for order, at in rows], "next_cursor": None}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def handle_request(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.answer(401, {"error": "the token is missing or wrong"})
        target = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(target.query).items()}
        books = open_books(BOOKS)
        match (self.command, target.path):
            case ("GET", "/stock"):
                self.answer(200, read_stock(books, query.get("cursor")))
            case ("POST", "/decrements"):
                self.answer(*book_batch(books, json.loads(body)))
            case ("GET", "/orders"):
                self.answer(200, read_orders(books, query["since"]))
            case _:
                self.answer(404, {"error": "no such path"})
        books.close()

    do_GET = do_POST = handle_request

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    BOOKS, PORT, TOKEN = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    open_books(BOOKS).close()
    ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
