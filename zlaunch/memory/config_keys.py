"""Reads numbers from a Hugging Face config.json, under the names that families give them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from zlaunch.errors import ConfigError
from zlaunch.frozen import frozen

# The same thing under other names.
_NAMES = {
    "hidden_size": ("n_embd", "d_model", "dim", "hidden_dim_size"),
    "num_hidden_layers": ("n_layer", "num_layers", "n_layers", "encoder_layers"),
    "num_attention_heads": (
        *("n_head", "num_heads", "n_heads", "attention_heads", "encoder_attention_heads"),
    ),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv"),
    "intermediate_size": (
        *("n_inner", "ffn_dim", "d_ff", "hidden_dim", "ffn_hidden_size", "encoder_ffn_dim"),
    ),
    "max_position_embeddings": (
        *("n_positions", "max_sequence_length", "seq_length", "n_ctx", "max_seq_len"),
    ),
    "head_dim": ("d_kv", "attention_head_size"),
    "num_experts": ("num_local_experts", "n_routed_experts", "moe_num_experts"),
    "num_experts_per_tok": ("num_experts_per_token", "moe_topk", "moe_k", "top_k"),
}
# Larger than any of them; a number beyond is a mistake, and its products mean nothing.
_LARGEST = 10**9
_MOST_LAYERS = 10_000
_LAYERS = {"num_hidden_layers", "num_decoder_layers", "encoder_layers", "decoder_layers", "depth"}


@frozen
class ConfigKeys:
    """The keys of one config.json, or of one section of it, with its family's defaults."""

    table: Mapping[str, Any]
    text: str
    where: str
    defaults: Mapping[str, Any]

    @property
    def architecture(self) -> str:
        """The class that the weights are of, "" where the config does not say it."""
        listed = self.table.get("architectures")
        first = listed[0] if isinstance(listed, list) and listed else ""
        return first if isinstance(first, str) else ""

    def find(self, key: str) -> Any:
        """What stands under `key` or another of its names; else the family's default; or None."""
        names = (key, *_NAMES.get(key, ()))
        said = (
            table[name] for table in (self.table, self.defaults) for name in names if name in table
        )
        return next((value for value in said if value is not None), None)

    def number(self, key: str, otherwise: int | None = None) -> int:
        """An integer above 0; `otherwise` where it is absent, an error where that is None."""
        value = self.find(key)
        if value is None:
            if otherwise is None:
                raise self._missing(key)
            return otherwise
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is not int or value <= 0:
            raise self.wrong(key, "a whole number above 0", value)
        most = _MOST_LAYERS if key in _LAYERS else _LARGEST
        if value > most:
            raise self.wrong(key, f"{most:,} at most", value)
        return value

    def optional(self, key: str) -> int:
        """An integer, 0 where it is absent or 0."""
        return 0 if self.find(key) in (None, 0, False) else self.number(key)

    def flag(self, key: str, otherwise: bool = False) -> bool:
        """True or false."""
        value = self.find(key)
        if value is None:
            return otherwise
        if not isinstance(value, bool) and value not in (0, 1):
            raise self.wrong(key, "true or false", value)
        return bool(value)

    def rate(self, *keys: str) -> bool:
        """Whether any of these rates (of dropout) is above 0."""
        values = [self.find(key) for key in keys]
        return any(isinstance(v, int | float) and v > 0 for v in values)

    def word(self, key: str) -> str:
        """A word, "" where it is absent."""
        value = self.find(key)
        return value if isinstance(value, str) else ""

    def numbers(self, key: str) -> set[int] | None:
        """A list of whole numbers, None where it is absent."""
        value = self.find(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(type(one) is int for one in value):
            raise self.wrong(key, "a list of whole numbers", value)
        return set(value)

    def section(self, name: str) -> Mapping[str, Any]:
        """An object inside, {} where there is none."""
        found = self.table.get(name)
        return found if isinstance(found, dict) else {}

    def inside(self, table: Mapping[str, Any], defaults: Mapping[str, Any]) -> ConfigKeys:
        """The keys of a section."""
        return ConfigKeys(table, self.text, self.where, defaults)

    def place(self, key: str) -> str:
        """`file:line` of a key, the file alone where it does not stand there."""
        name = self._name(key)
        found = re.search(rf'"{re.escape(name)}"\s*:', self.text)
        if found is None:
            return self.where
        return f"{self.where}:{self.text.count(chr(10), 0, found.start()) + 1}"

    def wrong(self, key: str, meant: str, value: Any) -> ConfigError:
        """The error for a value that cannot be."""
        return ConfigError(
            f'"{self._name(key)}" has to be {meant}, not {short(value)}', where=self.place(key)
        )

    def _name(self, key: str) -> str:
        names = (key, *_NAMES.get(key, ()))
        return next((name for name in names if self.table.get(name) is not None), key)

    def _missing(self, key: str) -> ConfigError:
        others = _NAMES.get(key, ())
        also = f" (or {', '.join(others[:3])})" if others else ""
        return ConfigError(
            f'this config.json has no "{key}"{also}, which decides about memory',
            where=self.where,
            hint="is it the config.json of a transformer? --params 7b plans without one",
        )


def parse_json(text: str, where: str, what: str = "a config.json") -> dict[str, Any]:
    """The object that `text` holds; `what` it should be, for the error."""
    if not text.strip():
        raise ConfigError("this file is empty", where=where)
    try:
        table = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"this is not JSON: {error.msg}", where=f"{where}:{error.lineno}:{error.colno}"
        ) from None
    except (ValueError, RecursionError) as error:
        deep = isinstance(error, RecursionError)
        problem = "it is nested too deeply" if deep else str(error).split(";")[0]
        raise ConfigError(f"this is not JSON: {problem}", where=where) from None
    if not isinstance(table, dict):
        raise ConfigError(f"{what} is one object with keys, not {short(table)}", where=where)
    return table


def short(value: Any) -> str:
    """A value as JSON has it, cut where it is long."""
    if isinstance(value, list | dict) and len(value) > 9:
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    if type(value) is int and abs(value) >= 10**40:
        return "a number of more than 40 digits"
    try:
        shown = json.dumps(value)
    except RecursionError:
        return "something nested deeply"
    return shown if len(shown) <= 40 else f"{shown[:37]}..."
