"""A call on a stack, as tracebacks, faulthandler and py-spy tell it."""

from __future__ import annotations

import re

from zlaunch.frozen import frozen

_LIBRARY = re.compile(
    r"(?:site|dist)-packages/|/lib(?:64)?/python\d|^<frozen |^<string>$|"
    r"/bin/(?:torchrun|deepspeed|accelerate)$"
)


@frozen
class Frame:
    """One call; `line` is 0 where it is not known."""

    file: str
    line: int
    function: str

    @property
    def own(self) -> bool:
        """Whether it is the user's: neither Python's nor of an installed package."""
        return _LIBRARY.search(self.file) is None
