"""Metrics that a script prints in words of its own: `step 12 loss 2.3`, `Step [10/100], Loss: 1`.

A line counts where it has a loss with a number, and reads like a report, not like prose, a piece
of source, a command line, a configuration or a URL.

step 12 loss 2.3                                   step 12/100 loss 2.3 lr 1e-4 tokens/s 900
epoch 1 | step 5 | loss 1.2 | lr 1e-4              Epoch [1/5], Step [10/100], Loss: 0.1234
iter 10: loss 2.3, time 123.4ms                    step 5: train loss 4.2, val loss 4.3
{'loss': 2.42, 'step': 0}                          {"train_loss": "2.4", "lr": 1e-4}
"""

from __future__ import annotations

import re
from itertools import islice

from zlaunch.insight.metrics_told import COUNT, REAL, TENSOR, Told, Value, compiled, real

# What a loss may be called: another word before it makes it another thing (packet loss, kl_loss).
_OF_TRAINING = r"(?:train(?:ing)?|lm|avg|average|mean|running|current|batch|total|step)"
_OF_EVALUATION = r"(?:eval(?:uation)?|val(?:id(?:ation)?)?|dev|test)"
_NAMES = {
    "eval_loss": rf"{_OF_EVALUATION}[ _/-]?loss",
    "loss": rf"(?:{_OF_TRAINING}[ _/-])?loss(?:_step)?",
    "lr": r"lr|learning[ _-]rate",
    "grad_norm": r"g(?:rad(?:ient)?)?[ _-]?norm",
    "loss_scale": r"loss[ _-]scale",
    "skipped": r"skipped(?:[ _-](?:steps|iterations))?",
    "samples_per_second": r"(?:train[_/])?(?:samples|examples|seqs?|imgs?|images)"
    r"(?:/s(?:ec)?|[ _]per[ _]sec(?:ond)?)",
    "tokens_per_second": r"(?:train[_/])?tok(?:ens?)?(?:/s(?:ec)?|[ _]per[ _]sec(?:ond)?)",
}
_COUNTS = frozenset(("step", "total", "skipped"))
_STEP = r"(?:(?:global|train|optimizer)[ _])?(?:steps?|iter(?:ation)?s?|update)"
_AHEAD = r"(?<![^\s,;|(\[{'\">*])"  # where a name begins: no --loss=1, x.loss=1, ?loss=1
_BEHIND = r"(?=,(?![0-9]{3}(?![0-9]))|[\s;|)\]}'\"/(*]|:(?!\S)|[.](?!\S)|$)"
_EQUALS = r"['\"]?\s{0,4}(?P<sign>[:=]|\s)\s{0,24}['\"\[]?"
_PAIR = (
    rf"{_AHEAD}(?:"
    + "|".join(rf"(?P<{name}>{words})" for name, words in _NAMES.items())
    + rf"){_EQUALS}{TENSOR}(?P<value>{REAL}){_BEHIND}"
)
_OF = rf"\s{{0,4}}(?:/|of)\s{{0,8}}({COUNT})"
_AT_STEP = rf"{_AHEAD}(?i:{_STEP})['\"]?[\s:=#\[]{{1,16}}({COUNT})(?:{_OF})?(?![\w.%])"
_AT_EPOCH = (
    rf"{_AHEAD}(?i:epoch)['\"]?[\s:=#\['\"]{{1,16}}([0-9]{{1,9}}(?:\.[0-9]{{1,20}})?)(?:{_OF})?"
    r"(?![\w%])"
)
_SECONDS = (
    rf"{_AHEAD}(?i:dt|(?:step|iter|iteration|batch)?[ _]?time)[\s:=]{{1,4}}"
    r"([0-9.]{1,12})\s?(ms|s)(?![\w/])"
)
_SPEED = r"(?<![\w.])([0-9][0-9,]{0,14}(?:\.[0-9]{1,9})?)\s?(samples|tok(?:en)?s?)/s(?:ec)?(?!\w)"
_TPS = rf"{_AHEAD}tps[\s:=]{{1,4}}([0-9][0-9,]{{0,14}}(?:\.[0-9]{{1,9}})?)(?!\w)"
_DICT = r"\{[^{}\r\n]{2,4000}\}"
_ITEM = rf"['\"]([A-Za-z_/ ]{{1,40}})['\"]\s?:\s?['\"]?{TENSOR}({REAL})(?=['\"\s,}}()])"
# A repr, a call or a message about an error is no report, nor is a line of source or of a dump.
_CALL = r"[A-Za-z_]\w*\([^()]*$"
_NO_REPORT = r"(?:Error|Exception|Warning)\b|://|^(?:\[rank[0-9]+\]:)?[ \t]{4,}\S+ ?[=:]"
_PROSE = r"[ \t]+[A-Za-z]+(?![A-Za-z_/]|[ \t]?[:=]|[ \t]+[-+]?[0-9.])"
_ALONE = rf"(?i:\s*(?:{_OF_TRAINING}\s)?loss\s{{1,8}}{REAL}\s*)"
_MOST_PAIRS = 40  # of a line
_LOOK_BACK = 200  # characters before a name


def read_plain(text: str) -> Told | None:
    """Read a line; None where it tells no loss."""
    if "{" in text:
        found = _of_dicts(text)
        if found is not None:
            return found
    fields = read_pairs(text)
    if fields is None or compiled(_NO_REPORT).search(text):
        return None
    return Told("print", fields)


def dict_items(text: str) -> dict[str, float] | None:
    """The numbers of the last flat dict that a line prints, by their names; it is not evaluated."""
    dicts: list[str] = compiled(_DICT).findall(text)
    for one in reversed(dicts):
        items = {name: real(value) for name, value in compiled(_ITEM).findall(one)}
        if items:
            return items
    return None


def _of_dicts(text: str) -> Told | None:
    items = dict_items(text)
    if items is None:
        return None
    fields: dict[str, Value] = {}
    for name, value in items.items():
        field = _field(name)
        if field is not None:
            _put(fields, field, value)
    return Told("print", fields) if "loss" in fields or "eval_loss" in fields else None


def _field(name: str) -> str | None:
    name = name.lower()
    if name == "epoch" or re.fullmatch(_STEP, name):
        return "epoch" if name == "epoch" else "step"
    for field, words in _NAMES.items():
        if compiled(words).fullmatch(name):
            return field
    return None


def _put(fields: dict[str, Value], field: str, value: float) -> None:
    """Note a value unless the field has one; what must be a count and is none is left out."""
    if field not in _COUNTS:
        fields.setdefault(field, value)
    elif 0 <= value < 2**53 and value == int(value):  # neither nan nor inf
        fields.setdefault(field, int(value))


def read_pairs(text: str, *, at_step: bool = False) -> dict[str, Value] | None:
    """Read names with numbers; None without a loss. `at_step` where the step is known otherwise."""
    fields: dict[str, Value] = {}
    _read_steps(text, fields)
    at_step = at_step or bool(fields) or bool(compiled(_ALONE).fullmatch(text))
    for found in islice(compiled(f"(?i:{_PAIR})").finditer(text), _MOST_PAIRS):
        name = next(name for name in _NAMES if found[name] is not None)
        if _is_report(found, name, at_step=at_step):
            _put(fields, name, real(found["value"]))
    if "loss" not in fields and "eval_loss" not in fields:
        return None
    _read_speed(text, fields)
    return fields


def _is_report(found: re.Match[str], name: str, *, at_step: bool) -> bool:
    """Tell a report from prose and source: `loss of 2 nodes`, `the loss 2 nodes`, `f(loss=0.1)`."""
    value = found["value"]
    before = found.string[max(0, found.start() - _LOOK_BACK) : found.start()]
    whole = value.lstrip("+-").isdigit()
    if compiled(_CALL).search(before):
        return False
    if not name.endswith("loss"):
        return at_step or found["sign"] in "=:"
    if found["sign"] not in "=:" and (whole or not at_step):
        return False
    if whole and compiled(_PROSE).match(found.string, found.end()):
        return False
    word = compiled(r"([A-Za-z]+)[ \t]+$").search(before)
    if word is None or word[1].isupper():
        return True
    return bool(compiled(rf"(?i:{_OF_TRAINING})").fullmatch(word[1]))


def _read_steps(text: str, fields: dict[str, Value]) -> None:
    """Find step, total and epoch; a step that is counted anew in each epoch is counted through."""
    step = compiled(_AT_STEP).search(text)
    epoch = compiled(_AT_EPOCH).search(text)
    if epoch is not None:
        fields["epoch"] = float(epoch[1])
    if step is None:
        return
    at, of = int(step[1]), step[2] and int(step[2])
    if of and epoch is not None and epoch[2] and "." not in epoch[1] and int(epoch[1]) > 0:
        at, of = (int(epoch[1]) - 1) * of + at, int(epoch[2]) * of
    fields["step"] = at
    if of and of >= at:
        fields["total"] = of


def _read_speed(text: str, fields: dict[str, Value]) -> None:
    took = compiled(_SECONDS).search(text)
    if took is not None and took[1].count(".") < 2 and took[1] != ".":
        fields["step_seconds"] = float(took[1]) * (0.001 if took[2] == "ms" else 1.0)
    for speed, what in compiled(_SPEED).findall(text):
        name = "samples_per_second" if what == "samples" else "tokens_per_second"
        fields.setdefault(name, float(speed.replace(",", "")))
    tps = compiled(_TPS).search(text)
    if tps is not None:
        fields.setdefault("tokens_per_second", float(tps[1].replace(",", "")))
