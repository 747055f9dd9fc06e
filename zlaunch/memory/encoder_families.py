"""Encoders, and T5: what each has in a layer, and the defaults of its config."""

from __future__ import annotations

from zlaunch.memory.family import BIASED, Family

_BERT = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "tie_word_embeddings": True,
    "hidden_act": "gelu",
}
_ROBERTA = {**_BERT, "vocab_size": 50265}
_T5 = {
    "vocab_size": 32128,
    "hidden_size": 512,
    "head_dim": 64,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "intermediate_size": 2048,
    "tie_word_embeddings": True,
    "relative_attention_num_buckets": 32,
    "dropout_rate": 0.1,
    "feed_forward_proj": "relu",
}

ENCODERS: dict[str, Family] = {
    "bert": Family(style="encoder", **BIASED, mlp="fused", half_softmax=True, defaults=_BERT),
    "roberta": Family(style="encoder", **BIASED, mlp="fused", half_softmax=True, defaults=_ROBERTA),
    "xlm-roberta": Family(
        style="encoder", **BIASED, mlp="fused", half_softmax=True, defaults=_BERT
    ),
    "distilbert": Family(
        style="encoder",
        **BIASED,
        mlp="fused",
        half_softmax=True,
        defaults={
            **_BERT,
            "num_hidden_layers": 6,
            "type_vocab_size": 0,
            "hidden_dropout_prob": None,
            "dropout": 0.1,
            "attention_dropout": 0.1,
        },
    ),
    "deberta-v2": Family(
        style="deberta",
        **BIASED,
        mlp="fused",
        half_softmax=True,
        only_eager=True,
        defaults={
            **_BERT,
            "vocab_size": 128100,
            "hidden_size": 1536,
            "num_hidden_layers": 24,
            "num_attention_heads": 24,
            "intermediate_size": 6144,
            "type_vocab_size": 0,
            "position_biased_input": True,
            "max_relative_positions": -1,
        },
    ),
    "t5": Family(style="t5", mlp="relu", defaults=_T5),
    "mt5": Family(
        style="t5",
        mlp="gated",
        defaults={**_T5, "vocab_size": 250112, "feed_forward_proj": "gated-gelu"},
    ),
}
# Another name of the same thing.
ENCODERS["camembert"] = ENCODERS["xlm-roberta"]
