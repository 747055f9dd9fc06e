"""Which code counts the parameters of which style of transformer."""

from __future__ import annotations

from collections.abc import Callable

from zlaunch.memory.config_keys import ConfigKeys
from zlaunch.memory.encoder_tensors import albert, deberta, encoder
from zlaunch.memory.family import Family
from zlaunch.memory.parts import Parts
from zlaunch.memory.seq2seq_tensors import bart, t5
from zlaunch.memory.tensors import decoder, deepseek, falcon
from zlaunch.memory.vision_tensors import vit

STYLES: dict[str, Callable[[ConfigKeys, Family], Parts]] = {
    "decoder": decoder,
    "falcon": falcon,
    "deepseek": deepseek,
    "encoder": encoder,
    "albert": albert,
    "deberta": deberta,
    "t5": t5,
    "bart": bart,
    "vit": vit,
}
