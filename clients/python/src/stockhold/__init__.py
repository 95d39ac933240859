"""Client for Stockhold: time-bounded holds on stock.

`Stockhold` waits for its answers, `AsyncStockhold` is for asyncio. Every command carries an idempotency key, so that a retry takes
effect once. What has none is sent once.
"""

from ._async_client import AsyncHold, AsyncStockhold
from ._calls import Call, command
from ._client import Hold, Stockhold
from ._errors import NoAnswer, StockholdError
from ._webhooks import InvalidSignature, verify_webhook

__all__ = [
    "AsyncHold",
    "AsyncStockhold",
    "Call",
    "Hold",
    "InvalidSignature",
    "NoAnswer",
    "Stockhold",
    "StockholdError",
    "command",
    "verify_webhook",
]
