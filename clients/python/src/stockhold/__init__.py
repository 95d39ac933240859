"""Client for Stockhold: time-bounded holds on stock.

`Stockhold` waits for its answers, `AsyncStockhold` is for asyncio. Every command carries an idempotency key, so that a retry takes
effect once.
"""

from ._async_client import AsyncHold, AsyncStockhold
from ._calls import Call
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
    "verify_webhook",
]
