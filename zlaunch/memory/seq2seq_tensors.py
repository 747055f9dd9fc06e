"""The parameters of encoder-decoders, as (elements, how many), without embedding and head."""

from __future__ import annotations

from zlaunch.frozen import frozen
from zlaunch.memory.config_keys import ConfigKeys
from zlaunch.memory.family import Family
from zlaunch.memory.parts import Parts, heads, intermediate, linear, norm, times


@frozen
class Stacks:
    """How many layers the encoder and the decoder have; 0 where a model leaves one out."""

    encoder: int
    decoder: int

    @property
    def layers(self) -> int:
        """Of both."""
        return self.encoder + self.decoder

    @property
    def attentions(self) -> float:
        """Attentions of a layer; each of the decoder has two."""
        return (self.encoder + 2 * self.decoder) / self.layers


def stacks(keys: ConfigKeys, family: Family) -> Stacks:
    """The layers of both stacks, as far as this architecture has them."""
    layers = keys.number("encoder_layers", keys.number("num_hidden_layers"))
    if family.style == "t5":
        decoders = keys.number("num_decoder_layers", layers)
    else:
        decoders = keys.number("decoder_layers", layers)
    if keys.architecture.endswith(
        ("EncoderModel", "ForTokenClassification", "ForAudioClassification")
    ):
        return Stacks(layers, 0)
    if keys.architecture.endswith("ForCausalLM"):
        return Stacks(0, decoders)
    return Stacks(layers, decoders)


def t5(keys: ConfigKeys, family: Family) -> Parts:
    """T5: an encoder, and a decoder with one attention more a layer."""
    hidden, both = keys.number("hidden_size"), stacks(keys, family)
    count, _, size = heads(keys, family)
    block = times([(hidden * count * size, 1)], 4)
    gate = is_gated(keys)
    forward = times([(hidden * intermediate(keys), 1)], 3 if gate else 2)
    table = [(keys.number("relative_attention_num_buckets") * count, 1)]
    parts = times(block + forward + norm(hidden, False) * 2, both.encoder)
    parts += times(times(block, 2) + forward + norm(hidden, False) * 3, both.decoder)
    present = (both.encoder > 0) + (both.decoder > 0)
    parts += times(table, both.layers if family.tables_each else present)
    return parts + times(norm(hidden, False), present)


def is_gated(keys: ConfigKeys) -> bool:
    """Whether T5's MLP has a gate, which the name of its activation says."""
    return keys.flag("is_gated_act", "gated" in keys.word("feed_forward_proj"))


def bart(keys: ConfigKeys, family: Family) -> Parts:
    """BART and its like, and Whisper, whose encoder begins with two convolutions."""
    hidden, both = keys.number("hidden_size"), stacks(keys, family)
    parts: Parts = []
    for decodes, layers in enumerate((both.encoder, both.decoder)):
        width = keys.number("decoder_ffn_dim" if decodes else "encoder_ffn_dim")
        layer = times(_attention(hidden, family), 1 + decodes)
        layer += linear(hidden, width, True) + linear(width, hidden, True)
        layer += norm(hidden, True) * (2 + decodes)
        if layers:
            parts += times(layer, layers) + times(norm(hidden, True), len(family.ends))
            parts += [(_positions(keys, family, decodes == 1) * hidden, 1)]
    if both.encoder and both.decoder and not keys.flag("tie_word_embeddings", True):
        tables = 0 if keys.optional("num_mel_bins") else 2  # one for each stack, beside the shared
        parts += [(keys.number("vocab_size") * hidden, tables)]
    if both.encoder and (bins := keys.optional("num_mel_bins")):
        parts += linear(3 * bins, hidden, True) + linear(3 * hidden, hidden, True)
    return parts


def _attention(hidden: int, family: Family) -> Parts:
    return times(linear(hidden, hidden, True), 3) + linear(hidden, hidden, family.key_bias)


def _positions(keys: ConfigKeys, family: Family, decodes: bool) -> int:
    """Rows of the table of positions; BART's begins two rows late. 0 where there is none."""
    if not family.positions:
        return 0
    own = keys.optional("max_target_positions" if decodes else "max_source_positions")
    if own:
        return own
    return keys.number("max_position_embeddings") + (family.extra_positions or 0)
