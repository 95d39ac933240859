"""Requests and the rules of retries, without input and output. Both clients use them."""

from __future__ import annotations

import json
import random
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Mapping
from urllib.parse import quote, urlencode

from ._errors import NoAnswer, StockholdError

TRIES = 5
"""Tries of one call."""
TIMEOUT_SECONDS = 10.0
"""The longest wait for one answer."""
FIRST_PAUSE_SECONDS = 0.1
"""The pause before the second try. Each next one is twice as long."""
LONGEST_PAUSE_SECONDS = 2.0
LONGEST_RETRY_AFTER_SECONDS = 60.0
"""A server that asks for a longer pause than this is not waited for."""

READS = frozenset({"/v1/availability", "/v1/prices/quote"})
"""Routes that change nothing, though their method is POST."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One request."""

    method: str
    path: str
    body: Json | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False
    """A repetition changes nothing, though it has no idempotency key."""

    def is_repeated(self) -> bool:
        """Whether it is sent again when no answer came: only what can't take effect twice. A precondition alone can't tell an
        earlier success of the same request from another caller's change."""
        has_key = any(name.lower() == "idempotency-key" for name in self.headers)
        is_read = self.method in ("GET", "HEAD") or self.path.partition("?")[0] in READS
        return self.repeatable or has_key or is_read

    def no_answer(self, tries: int, last: Exception) -> str:
        """The text of the error."""
        if self.is_repeated():
            return f"{self.method} {self.path} got no answer in {tries} tries; the last one: {last!r}"
        once = "It was sent once, because it has no idempotency key. It may have taken effect."
        return f"{self.method} {self.path} got no answer: {last!r}. {once}"

    def content(self) -> bytes | None:
        return None if self.body is None else json.dumps(self.body).encode()

    def all_headers(self) -> dict[str, str]:
        return {**({} if self.body is None else {"content-type": "application/json"}), **self.headers}


def segment(text: str) -> str:
    """A text as one segment of a path."""
    return quote(text, safe="")


def without_none(members: Json) -> Json:
    return {name: value for name, value in members.items() if value is not None}


def at(sku: str, tail: str, location: str | None) -> str:
    """The path of an item."""
    query = "" if location is None else "?" + urlencode({"location": location})
    return f"/v1/inventory/{segment(sku)}{tail}{query}"


def of(reservation_id: str, tail: str = "") -> str:
    """The path of a reservation."""
    return f"/v1/reservations/{segment(reservation_id)}{tail}"


def command(
    method: str, path: str, body: Json | None = None, key: str | None = None, version: int | None = None
) -> Call:
    """A request that changes something. Without a key it gets a new one, which all its tries have."""
    headers = {"idempotency-key": f'"{key or uuid.uuid4().hex}"'}
    if version is not None:
        headers["if-match"] = f'"{version}"'
    return Call(method, path, body, headers)


def reserve(
    sku: str | None,
    lines: list[Json] | None,
    location: str | None,
    key: str | None,
    body: Json,
) -> Call:
    """A reserve of one item, or of a basket."""
    if (sku is None) == (lines is None):
        raise ValueError("reserve needs either sku or lines")
    if lines is not None:
        return command("POST", "/v1/reservations", {**without_none(body), "lines": lines}, key)
    return command("POST", at(str(sku), "/reserve", location), without_none(body), key)


def checked(status: int, content: bytes) -> Json:
    """The value of an answer; empty if it has none. Raises when it is a refusal."""
    try:
        value = json.loads(content) if content else {}
    except ValueError:
        value = {}
    known: Json = value if isinstance(value, dict) else {}
    if 200 <= status < 300:
        return known
    raise StockholdError(status, known)


def is_sold_otherwise(failed: StockholdError | NoAnswer) -> bool:
    """Whether this refusal of a release says that the units are sold or about to be: the block has seen to it by another call."""
    return isinstance(failed, StockholdError) and failed.reason in ("reservation_confirmed", "payment_in_progress")


def asked_pause(headers: Mapping[str, str]) -> float | None:
    """The seconds that `Retry-After` asks for, in either form of RFC 9110 10.2.3: a number of seconds, or a date."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    until = _date(text)
    if until is None:
        return None
    # The date of the answer, so that the clocks of two machines need not agree.
    now = _date(headers.get("date", "")) or datetime.now(timezone.utc)
    return max((until - now).total_seconds(), 0.0)


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=timezone.utc)


def pause_before(call: Call, tries: int, error: StockholdError | None, asked: float | None) -> float | None:
    """Seconds before the next try, after so many of them. `None`: there is no next one."""
    if tries >= TRIES or not call.is_repeated() or (error is not None and not error.retryable):
        return None
    if asked is not None:
        return asked if asked <= LONGEST_RETRY_AFTER_SECONDS else None
    pause: float = min(FIRST_PAUSE_SECONDS * 2.0 ** (tries - 1), LONGEST_PAUSE_SECONDS)
    return pause * random.uniform(0.5, 1.5)


class EventLines:
    """Reads server-sent events line by line. `position` is what to begin after when the connection is lost."""

    def __init__(self, position: int | None) -> None:
        self.position = position
        self._id = position
        self._data: list[str] = []

    def push(self, line: str) -> Json | None:
        """The event that ends with this line, if one does."""
        if line.startswith("id:"):
            self._id = int(line[3:])
        elif line.startswith("data:"):
            self._data.append(line[5:].lstrip(" "))
        elif not line:
            # A block without data says where the stream begins, or that events of other types were passed.
            self.position = self._id
            if self._data:
                text, self._data = "\n".join(self._data), []
                event: Json = json.loads(text)
                return event
        return None
