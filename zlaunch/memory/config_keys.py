"""Reads numbers from a Hugging Face config.json, under the names that families give them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zlaunch.errors import ConfigError

# The same thing under other names.
_NAMES = {
    "hidden_size": ("n_embd", "d_model", "dim", "hidden_dim_size"),
    "num_hidden_layers": ("n_layer", "num_layers", "n_layers"),
    "num_attention_heads": ("n_head", "num_heads", "n_heads", "attention_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv"),
    "intermediate_size": ("n_inner", "ffn_dim", "d_ff", "hidden_dim", "ffn_hidden_size"),
    "max_position_embeddings": ("n_positions", "max_sequence_length", "seq_length", "n_ctx"),
    "head_dim": ("d_kv", "attention_head_size"),
    "num_experts": ("num_local_experts", "n_routed_experts"),
    "num_experts_per_tok": ("num_experts_per_token", "moe_topk", "top_k"),
}
# Larger than any of them; keeps a hostile file from costing time or memory.
_LARGEST = 10**9


@dataclass(frozen=True)
class ConfigKeys:
    """The keys of one config.json, or of one section of it, with its family's defaults."""

    table: Mapping[str, Any]
    text: str
    where: str
    defaults: Mapping[str, Any]

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
        if type(value) is not int or not 0 < value <= _LARGEST:
            raise ConfigError(
                f'"{self._name(key)}" has to be a whole number above 0, not {_short(value)}',
                where=self.place(key),
            )
        return value

    def optional(self, key: str) -> int:
        """An integer, 0 where it is absent or 0."""
        return 0 if self.find(key) in (None, 0, False) else self.number(key)

    def flag(self, key: str, otherwise: bool = False) -> bool:
        """True or false."""
        value = self.find(key)
        return otherwise if value is None else bool(value)

    def rate(self, *keys: str) -> bool:
        """Whether any of these rates (of dropout) is above 0."""
        values = [self.find(key) for key in keys]
        return any(isinstance(v, int | float) and v > 0 for v in values)

    def word(self, key: str) -> str:
        """A word, "" where it is absent."""
        value = self.find(key)
        return value if isinstance(value, str) else ""

    def place(self, key: str) -> str:
        """`file:line` of a key, the file alone where it does not stand there."""
        name = self._name(key)
        found = re.search(rf'"{re.escape(name)}"\s*:', self.text)
        if found is None:
            return self.where
        return f"{self.where}:{self.text.count(chr(10), 0, found.start()) + 1}"

    def _name(self, key: str) -> str:
        names = (key, *_NAMES.get(key, ()))
        return next((name for name in names if name in self.table), key)

    def _missing(self, key: str) -> ConfigError:
        others = _NAMES.get(key, ())
        also = f" (or {', '.join(others[:3])})" if others else ""
        return ConfigError(
            f'this config.json has no "{key}"{also}, which decides about memory',
            where=self.where,
            hint="is it the config.json of a transformer? --params 7b plans without one",
        )


def parse_json(text: str, where: str) -> dict[str, Any]:
    """The object that `text` holds."""
    try:
        table = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"this is not JSON: {error.msg}", where=f"{where}:{error.lineno}:{error.colno}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"this is not JSON: {error or 'nested too deeply'}", where=where
        ) from None
    if not isinstance(table, dict):
        raise ConfigError("a config.json is one object with keys", where=where)
    return table


def _short(value: Any) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."
