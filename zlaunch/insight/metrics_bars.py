"""Progress bars of tqdm: `Epoch 1:  12%|#2   | 12/100 [00:05<00:39,  2.20it/s, loss=2.31]`.

A bar that shows a loss, or that is called a bar of steps, tells of training. One without a word is
the Trainer's, or that of a download, an evaluation, a data set: `metrics.py` decides.
"""

from __future__ import annotations

from zlaunch.frozen import frozen
from zlaunch.insight.metrics_plain import read_pairs
from zlaunch.insight.metrics_told import COUNT, Value, compiled

_BAR = (
    r"(?P<name>[^|\r\n%]{0,400}?)[ ]{0,4}[0-9]{1,3}%\|[^|\r\n]{0,600}\|"
    rf"[ ]{{0,12}}(?P<step>{COUNT})/(?P<total>{COUNT}) \[(?P<inside>[^\]\r\n]{{5,1000}})\]"
)
_RATE = r"([0-9.]{1,12})(?:([a-zA-Z]{1,20})/s|s/([a-zA-Z]{1,20}))(?:,|$)"
_STEPS = (
    r"(?i:\W*(?:train(?:ing)?|(?:train(?:ing)?[ _])?(?:steps?|iterations?)"
    r"|epoch[ :=#\[]{1,4}[0-9].{0,40}))"
)
_NO_TRAINING = r"(?i:eval|valid|\bval\b|\btest|predict|sampl|generat)"
_EPOCH = r"(?i:epoch)[\s:=#\[]{1,4}([0-9]{1,9})(?:\s?(?:/|of)\s?([0-9]{1,9}))?(?![\w.])"
_EPOCHS = r"(?i:\W*epochs?\W*)"
_UNITS = frozenset(("it", "step", "steps", "iter", "batch", "batches", "ba"))


@frozen
class Bar:
    """What a bar shows.

    `step` and `total` are its own; `epoch` and `epochs` stand in its name, `seconds` are those of
    one step, `fields` what its name and its postfix tell besides. `bare`: nothing but numbers;
    `training`: a loss, or a name of steps; `of_epochs`: what it counts are epochs.
    """

    step: int
    total: int
    epoch: int | None
    epochs: int | None
    seconds: float | None
    fields: dict[str, Value]
    bare: bool
    training: bool
    of_epochs: bool


def read_bar(text: str) -> tuple[Bar, str] | None:
    """Read the last bar of a line; return it and what is written behind it."""
    start = text.rfind("%|")
    if start < 0:
        return None
    before = text.rfind("%|", 0, start)
    begin = text.find("]", before) + 1 if before >= 0 else 0
    found = compiled(_BAR).search(text, begin)
    if found is None or int(found["step"]) > int(found["total"]):
        return None
    name = found["name"].strip().rstrip(":")
    _, _, more = found["inside"].partition(", ")
    rate, _, postfix = more.partition(", ")
    fields = read_pairs(f"{name}, {postfix}", at_step=True)
    off = bool(compiled(_NO_TRAINING).search(name))
    epoch = compiled(_EPOCH).search(name)
    told = {k: v for k, v in (fields or {}).items() if k not in {"step", "total", "epoch"}}
    bar = Bar(
        int(found["step"]),
        int(found["total"]),
        int(epoch[1]) if epoch else None,
        int(epoch[2]) if epoch and epoch[2] else None,
        _seconds(rate),
        told,
        bare=not name and fields is None,
        training=not off and (fields is not None or bool(compiled(_STEPS).fullmatch(name))),
        of_epochs=bool(compiled(_EPOCHS).fullmatch(name)),
    )
    return bar, text[found.end() :]


def _seconds(rate: str) -> float | None:
    found = compiled(_RATE).match(rate.strip())
    if found is None or found[1].count(".") > 1 or found[1].startswith("."):
        return None
    if (found[2] or found[3]) not in _UNITS:
        return None
    value = float(found[1])
    return value if found[3] else 1 / value if value else None
