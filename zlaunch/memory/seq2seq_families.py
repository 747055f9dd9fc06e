"""Encoder-decoders: what each family has in a layer, and at the ends of its two stacks."""

from __future__ import annotations

from dataclasses import replace

from zlaunch.memory.family import BIASED, Family

_BART = Family(
    style="bart", **BIASED, mlp="fused", half_softmax=True, ends=("first",), extra_positions=2
)
_SMALL = Family(style="bart", **BIASED, mlp="fused", half_softmax=True, ends=("first",))
_LAST = Family(style="bart", **BIASED, mlp="fused", half_softmax=True, ends=("last",))

SEQ2SEQ: dict[str, Family] = {
    "t5": Family(style="t5", mlp="relu"),
    "mt5": Family(style="t5"),
    "umt5": Family(style="t5", tables_each=True),
    "longt5": Family(style="t5", mlp="relu", only_eager=True),
    "bart": _BART,
    "plbart": _BART,
    "mvp": replace(_BART, only_eager=True),
    "blenderbot-small": _SMALL,
    "mbart": Family(
        style="bart",
        **BIASED,
        mlp="fused",
        half_softmax=True,
        ends=("first", "last"),
        extra_positions=2,
    ),
    "blenderbot": _LAST,
    "pegasus": _LAST,
    "m2m_100": Family(
        style="bart", **BIASED, mlp="fused", half_softmax=True, ends=("last",), positions=False
    ),
    "marian": Family(style="bart", **BIASED, mlp="fused", half_softmax=True),
    "whisper": Family(
        style="bart", **BIASED, mlp="fused", half_softmax=True, ends=("last",), key_bias=False
    ),
}
