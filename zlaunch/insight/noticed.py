"""What did not end a run and is worth a word.

A loss that is nan, a checkpoint that was not loaded, a lock that ranks wait for, the loss scale.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from zlaunch.insight import deepspeed_lines, loss_scale
from zlaunch.insight.evidence import Cause, Evidence, Line
from zlaunch.insight.loss_scale_state import LossScaleState
from zlaunch.insight.rank_words import RankWords
from zlaunch.spec.ranks import describe_ranks

NAN = re.compile(
    r"\b(?:train_|training |lm |eval_)?loss['\"]?(?:\s+is)?\s*[:=]?\s*['\"]?(?:tensor\()?-?"
    r"(?P<what>nan|inf)\b",
    re.IGNORECASE,
)
_BUILD = re.compile(
    r"Using (?P<root>\S+) as PyTorch extensions root|Detected CUDA files, patching ldflags|"
    r"Emitting ninja build file|Building extension module (?P<name>\w+)"
)
_SCALE_MARKERS = tuple(marker.decode() for marker in deepspeed_lines.MARKERS)
_MOST_OF_SCALE = 3000  # lines of a rank
_WAITS = '/file_baton.py", line '  # in a stack that faulthandler printed
_STACKS = 200  # lines
_NOT_LOADED = "Unable to find latest file at "


def noticed(evidence: Evidence, words: Mapping[int, RankWords]) -> Iterator[Cause]:
    """All that is worth a word, whether the run failed or not."""
    for one in (_nan(words), _lock(evidence, words), _not_loaded(words), _scale(words)):
        if one is not None:
            yield one


def _nan(words: Mapping[int, RankWords]) -> Cause | None:
    for rank, said in words.items():
        hits = [(number, line, found) for number, line in enumerate(said.lines)
                if ("nan" in line or "inf" in line or "NaN" in line)
                and (found := NAN.search(line))]  # fmt: skip
        if hits:
            number, line, found = hits[0]
            lines = f"{len(hits)} line{'s' if len(hits) > 1 else ''}"
            return Cause(
                "loss-nan",
                (rank,),
                f"the loss is {found['what'].lower()} in {lines}",
                (f"first: {line.strip()[:160]}",),
                (
                    (
                        "with fp16: --precision bf16; else a lower learning rate, gradient "
                        "clipping, "
                        "a longer warm-up"
                    ),
                    "look at the data of that step: empty labels, a division by a length of 0",
                ),
                (Line(rank, number, line),),
            )
    return None


def _lock(evidence: Evidence, words: Mapping[int, RankWords]) -> Cause | None:
    """Ranks whose last word is that an operator is about to be loaded or built."""
    found: dict[int, int] = {}
    root = ""
    for rank, said in words.items():
        end = evidence.ends.get(rank)
        last = next((n for n in range(len(said.lines) - 1, -1, -1) if said.lines[n].strip()), None)
        if last is None or (end is not None and (end.well or not (end.stopped or end.signal))):
            continue
        match = _BUILD.match(said.lines[last])
        waits = (n for n in range(max(0, last - _STACKS), last + 1) if _WAITS in said.lines[n])
        at = last if match is not None else next(waits, None)
        if at is not None:
            found[rank] = at
            root = root or (match["root"] if match is not None else None) or ""
    if not found:
        return None
    place = (root or "~/.cache/torch_extensions").removesuffix("...")
    return Cause(
        "extension-lock",
        tuple(found),
        f"{describe_ranks(found)} built an operator, or waited for the lock of one, to the end",
        (),
        (
            (
                f"a build takes a minute; a lock that a killed one left is waited for for ever: "
                f"find {place} -name lock -delete"
            ),
        ),
        tuple(Line(rank, n, words[rank].lines[n]) for rank, n in found.items()),
    )


def _not_loaded(words: Mapping[int, RankWords]) -> Cause | None:
    for rank, said in words.items():
        for number, line in enumerate(said.lines):
            if _NOT_LOADED in line:
                path = line.partition(_NOT_LOADED)[2].partition(",")[0]
                return Cause(
                    "checkpoint-not-loaded",
                    (rank,),
                    f"no checkpoint was loaded, and training began anew: there is no {path}",
                    (),
                    ("the directory given to load_checkpoint(), which holds the file `latest`",),
                    (Line(rank, number, line),),
                )
    return None


def _scale(words: Mapping[int, RankWords]) -> Cause | None:
    state, first = LossScaleState(), None
    for rank, said in words.items():
        marked = [(n, line) for n, line in enumerate(said.lines) if _about_the_scale(line)]
        for number, line in marked[-_MOST_OF_SCALE:]:
            parsed = deepspeed_lines.parse_line(line)
            if parsed is not None:
                state, _ = loss_scale.observe(state, rank, parsed)
                if first is None and isinstance(parsed, deepspeed_lines.Overflow):
                    first = Line(rank, number, line)
    summary = loss_scale.summarize(state)
    if summary is None or first is None:
        return None
    return Cause("loss-scale", (first.rank,), summary.text, (), (), (first,))


def _about_the_scale(line: str) -> bool:
    for marker in _SCALE_MARKERS:  # noqa: SIM110 - any() is half as fast
        if marker in line:
            return True
    return False
