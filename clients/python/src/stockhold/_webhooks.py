"""Checks webhooks, which are signed as Standard Webhooks are (https://www.standardwebhooks.com)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any, Mapping

TOLERANCE_SECONDS = 300
"""How far the time of a webhook may be from now."""


class InvalidSignature(Exception):
    """The webhook is not from the holder of the secret, or not of now."""


def verify_webhook(
    secret: str, headers: Mapping[str, str], body: bytes, now: float | None = None
) -> dict[str, Any]:
    """The event of a webhook. `secret` is the one of the endpoint (`whsec_…`). Raises `InvalidSignature`."""
    known = {name.lower(): value for name, value in headers.items()}
    try:
        message_id, stamp = known["webhook-id"], known["webhook-timestamp"]
        sent = int(stamp)
        signatures = known["webhook-signature"].split(" ")
    except (KeyError, ValueError):
        raise InvalidSignature("a header of the signature is missing or no number") from None
    if abs((time.time() if now is None else now) - sent) > TOLERANCE_SECONDS:
        raise InvalidSignature("the webhook is too old, or a clock is wrong")
    signed = f"{message_id}.{stamp}.".encode() + body
    digest = hmac.new(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256).digest()
    expected = b"v1," + base64.b64encode(digest)
    # As bytes: texts with other characters than ASCII can't be compared.
    if not any(hmac.compare_digest(expected, one.encode(errors="replace")) for one in signatures):
        raise InvalidSignature("the signature does not fit the secret")
    event: dict[str, Any] = json.loads(body)
    return event
