"""Terms: named bytes that add up. A plan is shown term by term, so nothing hides in a sum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from zlaunch.frozen import frozen

Group: TypeAlias = Literal["states", "buffers", "activations", "overhead"]


@frozen
class Term:
    """Bytes with a name."""

    group: Group
    name: str
    size: int


@frozen
class Phase:
    """A moment of a training step, and all that lies on the GPU then."""

    name: str
    terms: tuple[Term, ...]

    @property
    def size(self) -> int:
        """Bytes of all terms."""
        return total(self.terms)

    def of(self, group: Group) -> int:
        """Bytes of the terms of one group."""
        return total(term for term in self.terms if term.group == group)


def total(terms: Iterable[Term]) -> int:
    """Bytes of all of them."""
    return sum(term.size for term in terms)


def present(*terms: Term) -> tuple[Term, ...]:
    """Those that are more than nothing."""
    return tuple(term for term in terms if term.size > 0)


def share(elements: int, ranks: int) -> int:
    """Elements of one rank's part; DeepSpeed pads the last one."""
    return -(-elements // ranks)
