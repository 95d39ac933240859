"""Runs the scenarios that all clients share with curl: each request is one start of it. This shows what a caller without a client
has to do: make an idempotency key for each command, and send the same request again when no answer comes or the server says that
it may be repeated.

    python clients/curl/run.py http://127.0.0.1:8101
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time
import uuid
from urllib.parse import quote

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python/tests"))

from proxy import LossyProxy  # noqa: E402
from scenarios import Json, Outcome, Run, send_on  # noqa: E402

TRIES = 5
PAUSE_SECONDS = 0.1

ROUTES = {
    "set_stock": ("PUT", "/v1/inventory/{sku}"),
    "get_item": ("GET", "/v1/inventory/{sku}"),
    "get_availability": ("GET", "/v1/inventory/{sku}/available"),
    "reserve": ("POST", "/v1/inventory/{sku}/reserve"),
    "reserve_basket": ("POST", "/v1/reservations"),
    "get_reservation": ("GET", "/v1/reservations/{reservation_id}"),
    "amend": ("PATCH", "/v1/reservations/{reservation_id}"),
    "release": ("DELETE", "/v1/reservations/{reservation_id}"),
    "confirm": ("POST", "/v1/reservations/{reservation_id}/confirm"),
    "extend": ("POST", "/v1/reservations/{reservation_id}/extend"),
    "fulfil": ("POST", "/v1/reservations/{reservation_id}/fulfil"),
    "return_units": ("POST", "/v1/reservations/{reservation_id}/return"),
}


def curl(server: str, step: Json) -> Outcome:
    """Sends one step, again when that is safe and may help."""
    method, template = ROUTES[step["call"]]
    at = step.get("at", {})
    path = template.format(**{name: quote(str(value), safe="") for name, value in at.items()})
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in at.items() if f"{{{name}}}" not in template)
    words = ["curl", "--silent", "--show-error", "--max-time", "10", "--request", method]
    words += ["--write-out", "\n%{http_code}", f"{server}{path}?{query}" if query else server + path]
    if method in ("POST", "PATCH"):
        words += ["--header", f'idempotency-key: "{step.get("key") or uuid.uuid4()}"']
    if "version" in step:
        words += ["--header", f'if-match: "{step["version"]}"']
    if "body" in step:
        words += ["--header", "content-type: application/json", "--data-binary", json.dumps(step["body"])]
    for _ in range(TRIES):
        ran = subprocess.run(words, capture_output=True, text=True)
        if ran.returncode == 0:
            text, _, status = ran.stdout.rpartition("\n")
            answer: Json = json.loads(text) if text else {}
            if int(status) < 300:
                return Outcome(answer)
            if not answer["retryable"]:
                return Outcome(refused={**answer, "status": int(status)})
        time.sleep(PAUSE_SECONDS)
    raise SystemExit(f"no answer in {TRIES} tries: {words}\n{ran.stdout}{ran.stderr}")


def hold(server: str, step: Json) -> Outcome:
    """A hold for as long as a block runs, by hand."""
    members = {name: value for name, value in step["hold"].items() if name != "sku"}
    begun = curl(server, {"call": "reserve", "at": {"sku": step["hold"]["sku"]}, "body": members})
    at = {"reservation_id": begun.answer["reservation_id"]}
    third = members["ttl_seconds"] / 3
    ends = time.monotonic() + step["seconds"]
    while (left := ends - time.monotonic()) > 0:
        time.sleep(min(left, third))
        curl(server, {"call": "extend", "at": at, "body": {"ttl_seconds": members["ttl_seconds"]}})
    ended = curl(server, {"call": "confirm" if step["ends"] == "confirms" else "release", "at": at})
    return ended if ended.refused else begun


def perform(server: str, step: Json) -> Outcome:
    if "wait" in step:
        time.sleep(step["wait"])
        return Outcome()
    return hold(server, step) if "hold" in step else curl(server, step)


def main() -> None:
    server = sys.argv[1].rstrip("/")
    proxy, run = LossyProxy(server), Run()
    for scenario in run.scenarios:
        steps = run.perform(scenario)
        step = next(steps, None)
        while step is not None:
            step = send_on(steps, perform(proxy.url, step))
    if proxy.lost < 50:
        raise SystemExit(f"the proxy lost {proxy.lost} answers only")
    items = run.counters()
    for item in items:
        at = {name: item[name] for name in ("sku", "location") if name in item}
        found = curl(server, {"call": "get_item", "at": at}).answer
        if found != {**found, **item}:
            raise SystemExit(f"the counters differ: expected {item}, got {found}")
    print(f"{len(run.scenarios)} scenarios passed, {proxy.lost} answers were lost, {len(items)} items are right")


main()
