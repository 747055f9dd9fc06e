"""What sits on top of a model: its parameters, and whether it makes logits over the vocabulary."""

from __future__ import annotations

from zlaunch.frozen import frozen
from zlaunch.memory.config_keys import ConfigKeys
from zlaunch.memory.encoder_tensors import embedding_width
from zlaunch.memory.family import Family
from zlaunch.memory.parts import Parts, linear, norm, said

_WORDS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "MTModel")
_USUAL = {
    **dict.fromkeys(("encoder", "albert", "deberta"), "ForSequenceClassification"),
    **dict.fromkeys(("t5", "bart"), "ForConditionalGeneration"),
    "vit": "ForImageClassification",
}


@frozen
class Head:
    """A head; `known` where it is counted as its code is written."""

    parts: Parts
    logits: bool = False
    known: bool = True
    note: str = ""


def head(keys: ConfigKeys, family: Family, name: str) -> Head:
    """The head that the config's architecture has."""
    said_to_be, note = keys.architecture, ""
    if not said_to_be:
        said_to_be = _USUAL.get(family.style, "ForCausalLM")
        note = f"no architectures in the config: taken for {said_to_be}"
    if family.style in ("encoder", "albert", "deberta"):
        found = _of_encoder(keys, family, said_to_be, name)
    elif family.style in ("t5", "bart"):
        found = _of_seq2seq(keys, said_to_be)
    elif family.style == "vit":
        found = _of_images(keys, family, said_to_be)
    else:
        found = _of_decoder(keys, family, said_to_be)
    if not found.known:
        note = f'what "{said_to_be[:60]}" has on top is not known: another head is counted'
    return Head(found.parts, found.logits, found.known, note)


def labels(keys: ConfigKeys) -> int:
    """How many classes a classifier tells apart."""
    names = keys.table.get("id2label")
    return len(names) if isinstance(names, dict) and names else keys.number("num_labels", 2)


def _is_plain(architecture: str) -> bool:
    return architecture.endswith("Model") and "Head" not in architecture


def _of_decoder(keys: ConfigKeys, family: Family, architecture: str) -> Head:
    hidden, vocab = keys.number("hidden_size"), keys.number("vocab_size")
    width = keys.number("word_embed_proj_dim", hidden)  # OPT's own
    if architecture.endswith("ForSequenceClassification"):
        return Head([(width * labels(keys), 1)])
    if architecture.endswith("ForTokenClassification"):
        return Head(linear(hidden, labels(keys), True))
    if architecture.endswith("ForQuestionAnswering"):
        return Head(linear(width, 2, True))
    if _is_plain(architecture):
        return Head([])
    tied = keys.flag("tie_word_embeddings", True)
    parts: Parts = [] if tied else [(vocab * width, 1)]
    parts += [(vocab, 1)] if said(keys, family.head_bias) else []
    return Head(parts, logits=True, known=architecture.endswith(_WORDS))


def _of_encoder(keys: ConfigKeys, family: Family, architecture: str, name: str) -> Head:
    hidden, vocab, width = (
        keys.number("hidden_size"),
        keys.number("vocab_size"),
        embedding_width(keys),
    )
    square, classify = linear(hidden, hidden, True), linear(hidden, labels(keys), True)
    tied = keys.flag("tie_word_embeddings", True)
    words = linear(hidden, width, True) + norm(width, True) + [(vocab, 1)]
    if not tied:
        words += [(vocab * width, 1)]
        words += [] if name in ("electra", "distilbert") else [(vocab, 1)]  # its bias twice
    if architecture.endswith(("ForMaskedLM", "ForCausalLM", "LMHeadModel")):
        return Head(words, logits=True)
    if architecture.endswith("ForPreTraining") and name == "electra":
        return Head(square + linear(hidden, 1, True))
    if architecture.endswith("ForPreTraining"):
        return Head(words + square + linear(hidden, 2, True), True, name in ("bert", "albert"))
    if architecture.endswith(("ForTokenClassification", "ForQuestionAnswering")):
        return Head(classify)
    if architecture.endswith("ForMultipleChoice"):
        return Head(square + linear(hidden, 1, True))
    if architecture.endswith("ForNextSentencePrediction"):
        return Head(square + linear(hidden, 2, True))
    if _is_plain(architecture):
        return Head(square if family.pooler else [])
    return Head(square + classify, known=architecture.endswith("ForSequenceClassification"))


def _of_seq2seq(keys: ConfigKeys, architecture: str) -> Head:
    hidden, vocab = keys.number("hidden_size"), keys.number("vocab_size")
    if architecture.endswith("ForSequenceClassification"):
        return Head(linear(hidden, hidden, True) + linear(hidden, labels(keys), True))
    if architecture.endswith(("ForTokenClassification", "ForQuestionAnswering")):
        return Head(linear(hidden, labels(keys), True))
    if _is_plain(architecture) and not architecture.endswith("MTModel"):
        return Head([])
    tied = keys.flag("tie_word_embeddings", True)
    parts = [] if tied else [(vocab * hidden, 1)]
    return Head(parts, logits=True, known=architecture.endswith(_WORDS))


def _of_images(keys: ConfigKeys, family: Family, architecture: str) -> Head:
    hidden = keys.number("hidden_size")
    classify = linear(hidden, labels(keys), True)
    if architecture.endswith("ForImageClassificationWithTeacher"):
        return Head(classify * 2)
    if _is_plain(architecture):
        outer = keys.number("pooler_output_size", hidden)
        return Head(linear(hidden, outer, True) if family.pooler else [])
    return Head(classify, known=architecture.endswith("ForImageClassification"))
