"""The client for asyncio."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, AsyncIterator

import httpx

from . import _calls
from ._calls import Call, EventLines, Json, at, command, of, segment, without_none
from ._errors import NoAnswer, StockholdError


class AsyncStockhold:
    """Calls one server. Use it in `async with`, or call `close` at the end.

    `api_key` is an API key, a token, or the hold token of one reservation. `http` replaces the HTTP client, for example to set
    certificates or a proxy.
    """

    def __init__(self, url: str, api_key: str | None = None, http: httpx.AsyncClient | None = None) -> None:
        self._url = url.rstrip("/")
        self._headers = {} if api_key is None else {"authorization": f"Bearer {api_key}"}
        self._http = http or httpx.AsyncClient(timeout=_calls.TIMEOUT_SECONDS)

    async def __aenter__(self) -> AsyncStockhold:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def call(self, call: Call) -> Json:
        """Sends a request and returns the value of the answer; for routes without a method of their own. It is sent again only if it
        can't take effect twice: a read, or a command with an idempotency key, which `command` gives it."""
        tries = 0
        while True:
            tries += 1
            error: StockholdError | None = None
            asked = None
            try:
                answer = await self._http.request(
                    call.method,
                    self._url + call.path,
                    content=call.content(),
                    headers={**self._headers, **call.all_headers()},
                )
                asked = _calls.asked_pause(answer.headers)
                return _calls.checked(answer.status_code, answer.content)
            except StockholdError as refused:
                error = refused
            except httpx.TransportError as lost:
                if _calls.pause_before(call, tries, None, None) is None:
                    raise NoAnswer(call.no_answer(tries, lost)) from lost
            pause = _calls.pause_before(call, tries, error, asked)
            if pause is None:
                assert error is not None
                raise error
            await asyncio.sleep(pause)

    async def set_stock(self, sku: str, total_units: int | None = None, location: str | None = None, **settings: Any) -> Json:
        """Creates an item or sets its stock and settings. A setting that is `None` is cleared."""
        total = {} if total_units is None else {"total_units": total_units}
        return await self.call(Call("PUT", at(sku, "", location), {**total, **settings}, repeatable=True))

    async def item(self, sku: str, location: str | None = None) -> Json:
        """An item."""
        return await self.call(Call("GET", at(sku, "", location)))

    async def available(self, sku: str, location: str | None = None) -> Json:
        """How many units can be reserved."""
        return await self.call(Call("GET", at(sku, "/available", location)))

    async def reserve(
        self,
        sku: str | None = None,
        *,
        owner_id: str,
        quantity: int | None = None,
        lines: list[Json] | None = None,
        ttl_seconds: int | None = None,
        location: str | None = None,
        key: str | None = None,
        **terms: Any,
    ) -> Json:
        """Holds units of one `sku`, or the `lines` of a basket. `terms` are further members, such as `customer_id`."""
        body = {"owner_id": owner_id, "quantity": quantity, "ttl_seconds": ttl_seconds, **terms}
        return await self.call(_calls.reserve(sku, lines, location, key, body))

    def hold(self, sku: str | None = None, **reserve: Any) -> AsyncHold:
        """The same for a `async with` statement: extended while the block runs, and released unless the block confirms it."""
        return AsyncHold(self, sku, reserve)

    async def reservation(self, reservation_id: str) -> Json:
        """A reservation in any status."""
        return await self.call(Call("GET", of(reservation_id)))

    async def confirm(self, reservation_id: str, *, key: str | None = None, **members: Any) -> Json:
        """Turns a hold into a sale: `order_id`, `payment_id`, `if_expired`."""
        return await self.call(command("POST", of(reservation_id, "/confirm"), without_none(members), key))

    async def extend(self, reservation_id: str, ttl_seconds: int, *, key: str | None = None) -> Json:
        """Moves the deadline to so many seconds from now."""
        return await self.call(command("POST", of(reservation_id, "/extend"), {"ttl_seconds": ttl_seconds}, key))

    async def release(self, reservation_id: str, reason: str | None = None) -> None:
        """Gives the units back. A repetition changes nothing."""
        query = "" if reason is None else f"?reason={segment(reason)}"
        await self.call(Call("DELETE", of(reservation_id, query), repeatable=True))

    async def amend(
        self, reservation_id: str, *, version: int | None = None, key: str | None = None, **members: Any
    ) -> Json:
        """Changes a hold: all `lines` that it has afterwards, `ttl_seconds`, `metadata`."""
        return await self.call(command("PATCH", of(reservation_id), without_none(members), key, version))

    async def checkout(
        self, reservation_id: str, payment_method: Json, *, key: str | None = None, **members: Any
    ) -> Json:
        """Takes the payment of a hold and confirms it. A declined payment raises `payment_declined`."""
        body = {"payment_method": payment_method, **without_none(members)}
        return await self.call(command("POST", of(reservation_id, "/checkout"), body, key))

    async def refund(self, reservation_id: str, reason: str, *, key: str | None = None, **members: Any) -> Json:
        """Gives money back: an `amount`, what `lines` or `units` cost, or all that is left."""
        body = {"reason": reason, **without_none(members)}
        return await self.call(command("POST", of(reservation_id, "/refund"), body, key))

    async def fulfil(self, reservation_id: str, *, key: str | None = None, **members: Any) -> Json:
        """Records that sold units have left the shelf: `lines`, `units`, or all."""
        return await self.call(command("POST", of(reservation_id, "/fulfil"), without_none(members), key))

    async def return_units(self, reservation_id: str, reason: str, *, key: str | None = None, **members: Any) -> Json:
        """Takes sold units back: `lines`, `units`, or all."""
        body = {"reason": reason, **without_none(members)}
        return await self.call(command("POST", of(reservation_id, "/return"), body, key))

    async def events(self, after: int | None = None, types: list[str] | None = None) -> AsyncIterator[Json]:
        """Every event after a position, and then those to come, without an end. It goes on after a lost connection."""
        lost = 0
        while True:
            query = "&".join(
                [*([] if after is None else [f"after={after}"]), *([] if not types else [f"type={segment(','.join(types))}"])]
            )
            call = Call("GET", "/v1/events/stream" + (f"?{query}" if query else ""))
            asked = None
            try:
                async with self._http.stream(
                    "GET", self._url + call.path, headers=self._headers, timeout=httpx.Timeout(_calls.TIMEOUT_SECONDS, read=None)
                ) as answer:
                    asked = _calls.asked_pause(answer.headers)
                    if answer.status_code != 200:
                        _calls.checked(answer.status_code, await answer.aread())
                    reader = EventLines(after)
                    async for line in answer.aiter_lines():
                        lost = 0
                        event = reader.push(line)
                        after = reader.position
                        if event is not None:
                            yield event
            except StockholdError as refused:
                pause = _calls.pause_before(call, lost + 1, refused, asked)
                if pause is None:
                    raise
            except httpx.TransportError as error:
                pause = _calls.pause_before(call, lost + 1, None, None)
                if pause is None:
                    raise NoAnswer(call.no_answer(lost + 1, error)) from error
            else:
                pause = _calls.FIRST_PAUSE_SECONDS
            lost += 1
            await asyncio.sleep(pause)


class AsyncHold:
    """A hold for as long as a block runs. `id` is the reservation, `reservation` its latest state."""

    def __init__(self, client: AsyncStockhold, sku: str | None, reserve: dict[str, Any]) -> None:
        self._client, self._sku, self._reserve = client, sku, reserve
        self._keeper: asyncio.Task[None] | None = None
        self._is_sold = False
        self.id = ""
        self.reservation: Json = {}

    async def __aenter__(self) -> AsyncHold:
        self.reservation = await self._client.reserve(self._sku, **self._reserve)
        self.id = self.reservation["reservation_id"]
        ttl = self._reserve.get("ttl_seconds")
        if ttl is not None:
            self._keeper = asyncio.create_task(self._keep(int(ttl)))
        return self

    async def _keep(self, ttl: int) -> None:
        """Extends the hold at a third of its time to live, until it has ended or can't be extended."""
        while True:
            await asyncio.sleep(ttl / 3)
            try:
                await self._client.extend(self.id, ttl)
            except (StockholdError, NoAnswer):
                # The deadline stays as it is. The confirm says what became of the hold.
                return

    async def confirm(self, **members: Any) -> Json:
        """Turns the hold into a sale."""
        self.reservation = await self._client.confirm(self.id, **members)
        self._is_sold = True
        await self._stop()
        return self.reservation

    async def _stop(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()
        if self._is_sold:
            return
        try:
            await self._client.release(self.id)
        except (StockholdError, NoAnswer) as failed:
            # What was not released ends by itself at its deadline. The error of the block matters more.
            if error is None and not _calls.is_sold_otherwise(failed):
                raise
