"""Both clients against a running server (`STOCKHOLD_SERVER`), half of the time through a proxy that loses answers."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import inspect
import os
import pathlib
import re
import time
import unittest
import uuid

from proxy import LossyProxy
from stockhold import AsyncStockhold, Call, InvalidSignature, NoAnswer, Stockhold, StockholdError, command, verify_webhook
from stockhold._calls import EventLines, asked_pause

SERVER = os.environ["STOCKHOLD_SERVER"]
SOLD = 20


def sku() -> str:
    return f"python-{uuid.uuid4().hex[:12]}"


class SyncClient(unittest.TestCase):
    def setUp(self) -> None:
        self.client = Stockhold(SERVER)
        self.addCleanup(self.client.close)
        self.sku = sku()
        self.client.set_stock(self.sku, 100)

    def lossy(self) -> tuple[LossyProxy, Stockhold]:
        proxy = LossyProxy(SERVER)
        self.addCleanup(proxy.close)
        client = Stockhold(proxy.url)
        self.addCleanup(client.close)
        return proxy, client

    def test_answers_that_are_lost_change_nothing_twice(self) -> None:
        proxy, client = self.lossy()
        for number in range(SOLD):
            held = client.reserve(self.sku, owner_id=f"cart-{number}", quantity=2)
            sold = client.confirm(held["reservation_id"], order_id=f"{self.sku}-{number}")
            self.assertEqual(sold["status"], "confirmed")
        self.assertGreaterEqual(proxy.lost, 2 * SOLD, "the proxy loses nothing")
        item = self.client.item(self.sku)
        self.assertEqual((item["confirmed_sold"], item["held_units"]), (2 * SOLD, 0))

    def test_calls_without_a_key_are_sent_once(self) -> None:
        proxy, client = self.lossy()
        adjust = f"/v1/inventory/{self.sku}/adjust"
        with self.assertRaisesRegex(NoAnswer, "sent once"):
            client.call(Call("POST", adjust, {"delta": 5, "reason": "delivery"}))
        self.assertEqual((proxy.requests, self.client.item(self.sku)["total_units"]), (1, 105))
        client.item(self.sku)
        # With a key it is sent until there is an answer, and takes effect once.
        self.assertEqual(client.call(command("POST", adjust, {"delta": 5, "reason": "delivery"}))["total_units"], 110)
        self.assertEqual(self.client.item(self.sku)["total_units"], 110)
        # A read is repeated, whatever its method.
        found = client.call(Call("POST", "/v1/availability", {"items": [{"sku": self.sku}]}))
        self.assertEqual(found["items"][0]["available"], 110)

    def test_a_sale_by_another_call_inside_a_block_is_a_sale(self) -> None:
        with self.client.hold(self.sku, owner_id="cart", ttl_seconds=60) as hold:
            self.client.confirm(hold.id)
        self.assertEqual(self.client.reservation(hold.id)["status"], "confirmed")

    def test_a_refusal_is_raised_at_once(self) -> None:
        with self.assertRaises(StockholdError) as raised:
            self.client.reserve(self.sku, owner_id="cart", quantity=101)
        error = raised.exception
        self.assertEqual((error.status, error.reason, error.retryable), (409, "insufficient_inventory", False))
        self.assertEqual(error.problem["lines"][0]["available"], 100)

    def test_a_server_that_can_not_do_it_now_is_asked_again(self) -> None:
        proxy, client = self.lossy()
        proxy.refuse_next(2, "0")
        self.assertEqual(client.item(self.sku)["total_units"], 100)
        proxy.refuse_next(1, "61")
        with self.assertRaises(StockholdError) as raised:
            client.item(self.sku)
        self.assertEqual((raised.exception.status, raised.exception.retryable), (503, True))

    def test_a_server_that_is_away(self) -> None:
        with Stockhold("http://127.0.0.1:1") as client, self.assertRaises(NoAnswer):
            client.item(self.sku)

    def test_a_hold_lasts_as_long_as_its_block(self) -> None:
        with self.client.hold(self.sku, owner_id="cart", ttl_seconds=2) as hold:
            time.sleep(3)
            self.assertEqual(hold.confirm()["status"], "confirmed")
        with self.assertRaises(ZeroDivisionError), self.client.hold(self.sku, owner_id="cart", ttl_seconds=60) as hold:
            raise ZeroDivisionError
        self.assertEqual(self.client.reservation(hold.id)["status"], "cancelled")
        with self.client.hold(lines=[{"sku": self.sku, "quantity": 3}], owner_id="cart", ttl_seconds=60) as hold:
            pass
        self.assertEqual(self.client.reservation(hold.id)["status"], "cancelled", "nobody confirmed it")

    def test_other_calls(self) -> None:
        held = self.client.reserve(self.sku, owner_id="cart", ttl_seconds=60)
        lines = [{"sku": self.sku, "quantity": 4}]
        changed = self.client.amend(held["reservation_id"], version=held["version"], lines=lines)
        self.assertEqual(changed["quantity"], 4)
        with self.assertRaises(StockholdError) as raised:
            self.client.amend(held["reservation_id"], version=held["version"], ttl_seconds=90)
        self.assertEqual(raised.exception.reason, "precondition_failed")
        self.client.extend(held["reservation_id"], 120)
        self.client.confirm(held["reservation_id"])
        self.client.fulfil(held["reservation_id"])
        self.client.return_units(held["reservation_id"], "broken", disposition="write_off")
        self.assertEqual(self.client.item(self.sku)["total_units"], 96)
        self.client.release(self.client.reserve(self.sku, owner_id="a b/c")["reservation_id"], "changed & gone")
        with self.assertRaises(ValueError):
            self.client.reserve(owner_id="cart")

    def test_events_come_in_order(self) -> None:
        held = self.client.reserve(self.sku, owner_id="cart")
        self.client.confirm(held["reservation_id"])
        seen = []
        for event in self.client.events(after=0):
            if event.get("reservation_id") == held["reservation_id"]:
                seen.append(event["type"])
            if len(seen) == 2:
                break
        self.assertEqual(seen, ["reservation.created", "reservation.confirmed"])

    def test_the_quick_start_of_the_readme(self) -> None:
        readme = pathlib.Path(__file__).parent.parent.joinpath("README.md").read_text()
        code = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[0]
        code = code.replace("http://127.0.0.1:8101", SERVER).replace('"shirt"', repr(self.sku))
        printed: list[object] = []
        exec(code, {"print": printed.append})  # noqa: S102
        self.assertEqual(printed, [8])


class AsyncClient(unittest.TestCase):
    def test_answers_that_are_lost_change_nothing_twice(self) -> None:
        asyncio.run(self.sell())

    async def sell(self) -> None:
        proxy, name = LossyProxy(SERVER), sku()
        self.addCleanup(proxy.close)
        async with AsyncStockhold(SERVER) as client, AsyncStockhold(proxy.url) as lossy:
            await client.set_stock(name, 100)

            async def buy(number: int) -> None:
                held = await lossy.reserve(name, owner_id=f"cart-{number}")
                await lossy.confirm(held["reservation_id"])

            for number in range(SOLD):
                await buy(number)
            async with client.hold(name, owner_id="cart", ttl_seconds=2) as hold:
                await asyncio.sleep(3)
                await hold.confirm()
            with self.assertRaises(ZeroDivisionError):
                async with client.hold(name, owner_id="cart", ttl_seconds=60) as hold:
                    raise ZeroDivisionError
            item = await client.item(name)
            self.assertEqual((item["confirmed_sold"], item["held_units"]), (SOLD + 1, 0))
            with self.assertRaises(StockholdError):
                await client.reserve(name, owner_id="cart", quantity=1_000)
            async for event in client.events(after=0):
                if event["type"] == "reservation.cancelled" and event.get("reservation_id") == hold.id:
                    break


class BothClients(unittest.TestCase):
    def test_a_stream_goes_on_after_the_last_whole_block(self) -> None:
        reader = EventLines(None)
        for line in ("retry: 1000", "id: 7", ""):
            self.assertIsNone(reader.push(line))
        self.assertEqual(reader.position, 7, "where the stream begins")
        for line in (": comment", "id: 8", 'data: {"position":8}'):
            self.assertIsNone(reader.push(line))
        self.assertEqual(reader.position, 7, "the event has not come yet")
        self.assertEqual((reader.push(""), reader.position), ({"position": 8}, 8))

    def test_they_have_the_same_methods(self) -> None:
        def methods(client: type) -> dict[str, list[str]]:
            named = [(name, method) for name, method in vars(client).items() if not name.startswith("_")]
            return {name: list(inspect.signature(method).parameters) for name, method in named}

        self.assertEqual(methods(Stockhold), methods(AsyncStockhold))


class RetryAfter(unittest.TestCase):
    def test_both_forms(self) -> None:
        date = "Fri, 20 Nov 2026 12:00:00 GMT"
        for headers, expected in (
            ({"retry-after": "7"}, 7.0),
            ({"retry-after": "Fri, 20 Nov 2026 12:00:30 GMT", "date": date}, 30.0),
            ({"retry-after": "Fri, 20 Nov 2026 11:00:00 GMT", "date": date}, 0.0),
            ({"retry-after": "Fri, 20 Nov 2020 12:00:00 GMT"}, 0.0),
            ({"retry-after": "soon"}, None),
            ({"retry-after": "٣"}, None),
            ({}, None),
        ):
            self.assertEqual(asked_pause(headers), expected, headers)


class Webhooks(unittest.TestCase):
    def test_signatures(self) -> None:
        key, body = b"0123456789abcdef01234567", b'{"type":"stockhold.reservation.confirmed"}'
        secret = "whsec_" + base64.b64encode(key).decode()
        signature = base64.b64encode(hmac.new(key, b"msg_1.1000." + body, hashlib.sha256).digest()).decode()
        headers = {"Webhook-Id": "msg_1", "Webhook-Timestamp": "1000", "Webhook-Signature": f"v1,AAAA v1,{signature}"}
        self.assertEqual(verify_webhook(secret, headers, body, now=1_200)["type"], "stockhold.reservation.confirmed")
        for wrong in (
            (secret, headers, body + b" ", 1_200),
            (secret, headers, body, 1_301),
            (secret, {**headers, "Webhook-Timestamp": "x"}, body, 1_200),
            ("whsec_" + base64.b64encode(b"other").decode(), headers, body, 1_200),
            (secret, {}, body, 1_200),
            (secret, {**headers, "Webhook-Signature": "v1,Ä v1,\udcff"}, body, 1_200),
        ):
            with self.assertRaises(InvalidSignature):
                verify_webhook(*wrong)


if __name__ == "__main__":
    unittest.main()
