"""The scenarios that all clients share (`clients/scenarios.yaml` says what is in them), without input and output: a runner sends
what `perform` yields, and sends back what came of it."""

from __future__ import annotations

import pathlib
import re
import uuid
from dataclasses import dataclass, field
from typing import Any, Generator

import yaml

Json = dict[str, Any]

FILE = pathlib.Path(__file__).parents[2] / "scenarios.yaml"


@dataclass
class Outcome:
    """What came of a step: the answer, or the status and the problem of a refusal."""

    answer: Json = field(default_factory=dict)
    refused: Json | None = None


@dataclass
class Run:
    """One run of all scenarios."""

    id: str = field(default_factory=lambda: f"run-{uuid.uuid4().hex[:12]}")
    scenarios: list[Json] = field(default_factory=lambda: list(yaml.safe_load(FILE.read_text())["scenarios"]))

    def perform(self, scenario: Json) -> Generator[Json, Outcome, None]:
        """Yields the steps of a scenario, ready to be sent, and checks what is sent back for each."""
        known: Json = {"run": self.id}
        for number, written in enumerate(scenario["steps"], 1):
            step = filled(written, known)
            outcome = yield step
            place = f"{scenario['name']}, step {number}"
            expected = step.get("refused")
            if (expected is None) != (outcome.refused is None):
                raise AssertionError(f"{place}: expected {expected or 'success'}, got {outcome}")
            if expected is None:
                compare(place, step.get("expect", {}), outcome.answer)
            else:
                compare(place, expected, outcome.refused)
            known |= {name: outcome.answer[member] for name, member in step.get("save", {}).items()}

    def counters(self) -> list[Json]:
        """The items as they must be in the end."""
        return [filled(item, {"run": self.id}) for scenario in self.scenarios for item in scenario["counters"]]


def send_on(steps: Generator[Json, Outcome, None], outcome: Outcome) -> Json | None:
    """Hands back what came of a step. The next step, or `None` at the end."""
    try:
        return steps.send(outcome)
    except StopIteration:
        return None


def filled(value: Any, known: Json) -> Any:
    """A value with what is known in place of each `${name}`."""
    if isinstance(value, dict):
        return {name: filled(member, known) for name, member in value.items()}
    if isinstance(value, list):
        return [filled(element, known) for element in value]
    if not isinstance(value, str):
        return value
    whole = re.fullmatch(r"\$\{(\w+)\}", value)
    if whole:
        return known[whole[1]]
    return re.sub(r"\$\{(\w+)\}", lambda name: str(known[name[1]]), value)


def compare(place: str, expected: Any, found: Any) -> None:
    """Raises if what was found has not what is expected. It may have more members."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for name, member in expected.items():
            compare(f"{place}, {name}", member, found.get(name))
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, element in enumerate(expected):
            compare(f"{place}, {number}", element, found[number])
    elif type(expected) is not type(found) or expected != found:
        raise AssertionError(f"{place}: expected {expected!r}, got {found!r}")
