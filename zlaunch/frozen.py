"""Frozen dataclasses whose classes are made in a fifth of the time.

`dataclass(frozen=True)` compiles six methods of each class when its module is loaded, which takes
0.4 to 0.8 ms: with some sixty messages that was a fifth of a start. Here it compiles `__init__`
alone, and the others are shared. That nobody assigns to a field is seen by mypy, not at run time.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        """Nothing, at run time."""
        return lambda decorator: decorator


Made = TypeVar("Made")


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def frozen(cls: type[Made]) -> type[Made]:
    """Make a dataclass of it: equal, hashed and shown by its fields, and never changed."""
    made: Any = dataclasses.dataclass(eq=False, repr=False)(cls)
    made.__frozen_fields__ = tuple(field.name for field in dataclasses.fields(made))
    made.__eq__, made.__hash__, made.__repr__ = _equals, _hash, _shown
    return made  # type: ignore[no-any-return]


def _equals(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return _values(self) == _values(other)


def _hash(self: Any) -> int:
    return hash(_values(self))


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, name) for name in self.__frozen_fields__)


def _shown(self: Any) -> str:
    fields = (field.name for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(f'{n}={getattr(self, n)!r}' for n in fields)})"
