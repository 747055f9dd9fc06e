"""What is measured: a case, its quantities, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from harness.contender import Contender, Launchers

WORKERS = Path(__file__).parents[1] / "workers"

# A number in the quantity's unit, or words where the contender has none to give.
Value = float | str


class Unmeasured(Exception):  # noqa: N818  (as StopIteration: it is an answer)
    """The contender did not do what the case asks of it; the text says what it did."""


@dataclass(frozen=True)
class Bench:
    """What a benchmark builds its cases from."""

    launchers: Launchers
    scratch: Path
    quick: bool = False

    def script(self, name: str) -> str:
        """The path of one of the scripts that ranks run here."""
        return str(WORKERS / name)


@dataclass(frozen=True)
class Quantity:
    """Something measured: `s`, `MB`, `ms`, `/s`, or without a unit."""

    name: str
    unit: str = "s"
    compared: bool = True


@dataclass(frozen=True)
class Case:
    """One thing to do, by every contender in turn; `measure` returns one value per quantity."""

    title: str
    contenders: tuple[Contender, ...]
    quantities: tuple[Quantity, ...]
    measure: Callable[[Contender], tuple[Value, ...]]
    rounds: int = 5


@dataclass
class Outcome:
    """What a case's rounds gave, by contender: values per quantity, or why there are none."""

    case: Case
    values: dict[str, list[tuple[Value, ...]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def samples(self, name: str, quantity: int) -> list[Value]:
        """All rounds' values of one contender."""
        return [values[quantity] for values in self.values.get(name, [])]

    def typical(self, name: str, quantity: int) -> Value | None:
        """The median, or the words given most often."""
        samples = self.samples(name, quantity)
        words = [sample for sample in samples if isinstance(sample, str)]
        numbers = [sample for sample in samples if not isinstance(sample, str)]
        if len(words) > len(numbers):
            return Counter(words).most_common(1)[0][0]
        return median(numbers) if numbers else None

    def reasons(self) -> Mapping[str, str]:
        """Why a contender has no numbers: it cannot, or it failed."""
        cannot = {c.name: c.cannot for c in self.case.contenders if c.cannot}
        return {**cannot, **self.failures}
