"""Both clients run the scenarios that all clients share, through a proxy that loses answers."""

from __future__ import annotations

import asyncio
import os
import time
import unittest
from typing import Any, Awaitable, Callable

from proxy import LossyProxy
from scenarios import Json, Outcome, Run, send_on
from stockhold import AsyncStockhold, Stockhold, StockholdError

SERVER = os.environ["STOCKHOLD_SERVER"]


class Failed(Exception):
    """The error of a block."""


def sent(client: Any, step: Json) -> Any:
    """The call of a step: its answer, or with the asynchronous client what must be awaited."""
    at, body = step.get("at", {}), step.get("body", {})
    options = {name: step[name] for name in ("key", "version") if name in step}
    calls: dict[str, Callable[[], Any]] = {
        "set_stock": lambda: client.set_stock(**at, **body),
        "get_item": lambda: client.item(**at),
        "get_availability": lambda: client.available(**at),
        "reserve": lambda: client.reserve(**at, **body, **options),
        "reserve_basket": lambda: client.reserve(**body, **options),
        "get_reservation": lambda: client.reservation(**at),
        "confirm": lambda: client.confirm(**at, **body, **options),
        "extend": lambda: client.extend(**at, **body, **options),
        "release": lambda: client.release(**at),
        "amend": lambda: client.amend(**at, **body, **options),
        "fulfil": lambda: client.fulfil(**at, **body, **options),
        "return_units": lambda: client.return_units(**at, **body, **options),
    }
    return calls[step["call"]]()


def refusal(error: StockholdError) -> Outcome:
    return Outcome(refused={**error.problem, "status": error.status, "reason": error.reason, "retryable": error.retryable})


class SyncScenarios(unittest.TestCase):
    def test_all(self) -> None:
        proxy, run = LossyProxy(SERVER), Run()
        self.addCleanup(proxy.close)
        with Stockhold(proxy.url) as client, Stockhold(SERVER) as direct:
            for scenario in run.scenarios:
                steps = run.perform(scenario)
                step = next(steps, None)
                while step is not None:
                    step = send_on(steps, self.outcome(client, step))
            self.assertGreater(proxy.lost, 50, "the proxy loses nothing")
            for item in run.counters():
                found = direct.item(item["sku"], item.get("location"))
                self.assertEqual({**found, **item}, found)

    def outcome(self, client: Stockhold, step: Json) -> Outcome:
        if "wait" in step:
            time.sleep(step["wait"])
            return Outcome()
        try:
            return self.held(client, step) if "hold" in step else Outcome(sent(client, step) or {})
        except StockholdError as error:
            return refusal(error)

    def held(self, client: Stockhold, step: Json) -> Outcome:
        begun: Json = {}
        try:
            with client.hold(**step["hold"]) as hold:
                begun = hold.reservation
                time.sleep(step["seconds"])
                if step["ends"] == "fails":
                    raise Failed
                if step["ends"] == "confirms":
                    hold.confirm()
        except Failed:
            self.assertEqual(step["ends"], "fails")
        else:
            self.assertNotEqual(step["ends"], "fails", "the error of the block is lost")
        return Outcome(begun)


class AsyncScenarios(unittest.TestCase):
    def test_all(self) -> None:
        asyncio.run(self.run_all())

    async def run_all(self) -> None:
        proxy, run = LossyProxy(SERVER), Run()
        self.addCleanup(proxy.close)
        async with AsyncStockhold(proxy.url) as client, AsyncStockhold(SERVER) as direct:
            for scenario in run.scenarios:
                steps = run.perform(scenario)
                step = next(steps, None)
                while step is not None:
                    step = send_on(steps, await self.outcome(client, step))
            self.assertGreater(proxy.lost, 50, "the proxy loses nothing")
            for item in run.counters():
                found = await direct.item(item["sku"], item.get("location"))
                self.assertEqual({**found, **item}, found)

    async def outcome(self, client: AsyncStockhold, step: Json) -> Outcome:
        if "wait" in step:
            await asyncio.sleep(step["wait"])
            return Outcome()
        try:
            call: Awaitable[Any] = sent(client, step) if "call" in step else self.held(client, step)
            return Outcome(await call or {})
        except StockholdError as error:
            return refusal(error)

    async def held(self, client: AsyncStockhold, step: Json) -> Json:
        begun: Json = {}
        try:
            async with client.hold(**step["hold"]) as hold:
                begun = hold.reservation
                await asyncio.sleep(step["seconds"])
                if step["ends"] == "fails":
                    raise Failed
                if step["ends"] == "confirms":
                    await hold.confirm()
        except Failed:
            self.assertEqual(step["ends"], "fails")
        else:
            self.assertNotEqual(step["ends"], "fails", "the error of the block is lost")
        return begun


if __name__ == "__main__":
    unittest.main()
