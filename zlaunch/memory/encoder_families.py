"""Encoders of text: what each family has in a layer."""

from __future__ import annotations

from zlaunch.memory.family import BIASED, Family

_BERT = Family(style="encoder", **BIASED, mlp="fused", half_softmax=True)
_NO_POOLER = Family(style="encoder", **BIASED, mlp="fused", half_softmax=True, pooler=False)

ENCODERS: dict[str, Family] = {
    "bert": _BERT,
    "roberta": _BERT,
    "xlm-roberta": _BERT,
    "camembert": _BERT,
    "data2vec-text": _BERT,
    "mpnet": Family(style="encoder", **BIASED, mlp="fused", half_softmax=True, only_eager=True),
    "distilbert": _NO_POOLER,
    "electra": _NO_POOLER,
    "longformer": Family(
        style="encoder", **BIASED, mlp="fused", global_attention=True, only_eager=True
    ),
    "albert": Family(style="albert", **BIASED, mlp="fused", half_softmax=True),
    "deberta-v2": Family(
        style="deberta", **BIASED, mlp="fused", half_softmax=True, only_eager=True, pooler=False
    ),
}
