"""Lint: what in the text of a ds_config is not JSON, and who minds."""

from __future__ import annotations

from collections.abc import Iterator

from zlaunch.dsconfig.document import Oddity
from zlaunch.dsconfig.finding import Finding, Level, Look

_READERS = {"hf": "transformers reads", "accelerate": "Accelerate reads"}


def check_syntax(look: Look) -> Iterator[Finding]:
    """Slips that nobody reads as meant, and forms that only DeepSpeed's own reader takes."""
    minor = [oddity for oddity in look.document.oddities if not oddity.fatal]
    for oddity in look.document.oddities:
        if oddity.fatal:
            yield _finding(oddity, "error", oddity.text)
    target = look.around.target
    if target != "plain" and look.around.direct:
        for oddity in minor:
            yield _finding(oddity, "error", f"{oddity.text}, and {_READERS[target]} JSON only")
    else:
        first: dict[str, Oddity] = {}
        for oddity in minor:
            first.setdefault(oddity.code, oddity)
        for oddity in first.values():
            text = f"{oddity.text}; DeepSpeed reads it all the same, as hjson"
            yield _finding(oddity, "note", text)
    value = look.document.value
    if look.document.complete and not isinstance(value, dict):
        kind = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
        text = f"a ds_config is one object with keys, not {kind.get(type(value), 'a number')}"
        mend = 'it looks like {"train_batch_size": 32, ...}'
        yield look.finds("error", "not-an-object", (), text, mend)


def _finding(oddity: Oddity, level: Level, text: str) -> Finding:
    path = ".".join(map(str, oddity.where))
    return Finding(oddity.code, level, path, oddity.place, text, oddity.mend)
