"""What a call raises."""

from __future__ import annotations

from typing import Any


class StockholdError(Exception):
    """The server refused the request, or could not do it now and was asked often enough.

    `reason` is a stable word such as `insufficient_inventory`. `problem` has all members of the answer.
    """

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        self.status = status
        self.problem = problem
        self.reason: str = str(problem.get("reason", ""))
        self.retryable: bool = problem.get("retryable") is True
        super().__init__(f"{status} {self.reason}: {problem.get('detail', 'an answer that is no problem document')}")


class NoAnswer(Exception):
    """No try got an answer. The command may or may not have taken effect: the same call with the same `key` finds out."""
