"""What the client adds to a call: the same request by the client and by httpx alone, in turns, on connections that stay open.

    STOCKHOLD_SERVER=http://127.0.0.1:8101 PYTHONPATH=src python bench/call.py
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
import uuid
from typing import Callable

import httpx

from stockhold import AsyncStockhold, Stockhold

SERVER = os.environ.get("STOCKHOLD_SERVER", "http://127.0.0.1:8101")
CALLS = 5_000
WARM_UP = 500
TERMS = {"owner_id": "bench", "ttl_seconds": 60}
SKU = f"bench-{uuid.uuid4().hex[:12]}"
URL = f"{SERVER}/v1/inventory/{SKU}/reserve"


def key() -> dict[str, str]:
    return {"idempotency-key": uuid.uuid4().hex}


def sync_times() -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"httpx": [], "client": []}
    with httpx.Client() as bare, Stockhold(SERVER) as client:
        client.set_stock(SKU, 1_000_000_000)
        ways: dict[str, Callable[[], object]] = {
            "httpx": lambda: bare.post(URL, json=TERMS, headers=key()).json(),
            "client": lambda: client.reserve(SKU, owner_id="bench", ttl_seconds=60),
        }
        for number in range(WARM_UP + CALLS):
            for name, call in ways.items():
                began = time.perf_counter()
                call()
                if number >= WARM_UP:
                    times[name].append(time.perf_counter() - began)
    return times


async def async_times() -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"httpx": [], "client": []}
    async with httpx.AsyncClient() as bare, AsyncStockhold(SERVER) as client:

        async def post() -> None:
            (await bare.post(URL, json=TERMS, headers=key())).json()

        async def reserve() -> None:
            await client.reserve(SKU, owner_id="bench", ttl_seconds=60)

        for number in range(WARM_UP + CALLS):
            for name, call in (("httpx", post), ("client", reserve)):
                began = time.perf_counter()
                await call()
                if number >= WARM_UP:
                    times[name].append(time.perf_counter() - began)
    return times


def show(title: str, times: dict[str, list[float]]) -> None:
    for name, of in (("median", statistics.median), ("mean", statistics.fmean)):
        bare, whole = of(times["httpx"]) * 1e6, of(times["client"]) * 1e6
        added = f"added {whole - bare:.0f} µs, ratio {whole / bare:.2f}"
        print(f"{title}, {name}: httpx {bare:.0f} µs, client {whole:.0f} µs, {added}")


show("sync", sync_times())
show("async", asyncio.run(async_times()))
