"""Configs that others wrote: base64, YAML, and what `accelerate config` saves, as a ds_config."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from zlaunch.dsconfig.source import parse_config
from zlaunch.errors import ConfigError

Kind = Literal["JSON", "base64", "YAML", "Accelerate"]

# Keys of Accelerate's files that no ds_config has.
_OF_ACCELERATE = {"compute_environment", "distributed_type", "deepspeed_config", "num_processes"}


@dataclass(frozen=True)
class Imported:
    """A ds_config and where it comes from.

    `config_file` is the path of a ds_config that an Accelerate file names instead of spelling
    one; `config` then holds what that file lacks. `notes` say what has no place in a ds_config,
    and how zlaunch is told it.
    """

    config: dict[str, Any]
    kind: Kind
    config_file: str | None = None
    notes: tuple[str, ...] = ()


def import_config(text: str, name: str) -> Imported:
    """Recognise what `text` is and return the ds_config that it means.

    JSON and hjson are read as `parse_config` does. Raises ConfigError.
    """
    text = text.removeprefix("\ufeff")
    decoded = _from_base64(text)
    if decoded is not None:
        return Imported(parse_config(decoded, name), "base64")
    if text.lstrip().startswith("{"):
        return Imported(parse_config(text, name), "JSON")
    if not _looks_like_yaml(text):
        return Imported(parse_config(text, name), "JSON")  # hjson without braces, or its error
    data = _parse_yaml(text, name)
    if _OF_ACCELERATE & data.keys():
        return _from_accelerate(data, name)
    return Imported(data, "YAML")


def is_foreign(text: str) -> bool:
    """Whether it is another form than JSON or hjson in braces."""
    text = text.removeprefix("\ufeff")
    if text.lstrip().startswith("{"):
        return False
    return _from_base64(text) is not None or _looks_like_yaml(text)


def _from_base64(text: str) -> str | None:
    """The JSON behind it, in the forms that DeepSpeed and Accelerate take on a command line."""
    packed = "".join(text.split())
    if not packed or not re.fullmatch(r"[A-Za-z0-9+/_-]+=*", packed):
        return None
    try:
        decoded = base64.urlsafe_b64decode(packed.replace("+", "-").replace("/", "_"))
        found = decoded.decode("utf-8")
    except (binascii.Error, ValueError):
        return None
    return found if found.lstrip().startswith("{") else None


# YAML


def _looks_like_yaml(text: str) -> bool:
    """A first line of `key:` that is no quoted JSON; hjson's own form has braces or commas."""
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith(("#", "---", "%")):
            return re.match(r"""["']?[\w.-]+["']?\s*:(\s|$)""", line) is not None
    return False


def _parse_yaml(text: str, name: str) -> dict[str, Any]:
    import yaml

    try:
        data = yaml.load(text, Loader=_loader())  # noqa: S506 - a safe loader, made stricter
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise ConfigError(f"this YAML cannot be read: {error.problem}", where=where) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"this YAML cannot be read: {error}", where=name) from None
    if not isinstance(data, dict):
        raise ConfigError("a config in YAML is one mapping of keys", where=name)
    return data


def _loader() -> Any:
    """PyYAML's safe loader, but for two things.

    It reads 1e-5 as text, since YAML 1.1 wants a dot and a sign there; nobody means that. And of
    a key that stands twice it would take the last one without a word.
    """
    import yaml

    safe: Any = yaml.SafeLoader

    class Loader(yaml.SafeLoader):
        pass

    def mapping(loader: Any, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: dict[Any, Any] = {}
        for key_node, _ in node.value:
            key = loader.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                problem = f"the key {key!r} is no text"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            if key in seen:
                problem = f'the key "{key}" stands twice'
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen[key] = None
        return dict(yaml.SafeLoader.construct_mapping(loader, node, deep))

    number = r"[-+]?([0-9][0-9_]*\.?[0-9_]*|\.[0-9_]+)[eE][-+]?[0-9]+"
    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(f"^{number}$"), "-+.0123456789"
    )
    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    # JSON has none of these; a date is what was typed.
    Loader.add_constructor("tag:yaml.org,2002:timestamp", safe.construct_yaml_str)
    for kind in ("binary", "set", "omap", "pairs"):
        Loader.add_constructor(f"tag:yaml.org,2002:{kind}", safe.construct_undefined)
    return Loader


# What `accelerate config` saves


def _from_accelerate(data: Mapping[str, Any], name: str) -> Imported:
    """Build what Accelerate's DeepSpeedPlugin builds from these fields.

    `DeepSpeedPlugin.__post_init__` in accelerate/utils/dataclasses.py; the fields are those of
    accelerate/commands/config/cluster.py.
    """
    kind = str(data.get("distributed_type", "DEEPSPEED")).upper()
    if kind != "DEEPSPEED":
        raise ConfigError(
            f"this Accelerate configuration trains by {kind}, not by DeepSpeed",
            where=name,
            hint="accelerate config asks whether to use DeepSpeed",
        )
    fields = data.get("deepspeed_config") or {}
    if not isinstance(fields, Mapping):
        raise ConfigError("deepspeed_config is no mapping of keys", where=name)
    precision = _precision(str(data.get("mixed_precision", "no")))
    notes = _notes(data, fields)
    if fields.get("deepspeed_config_file") is not None:
        file = str(fields["deepspeed_config_file"])
        return Imported(precision, "Accelerate", file, notes)
    return Imported({**_spelled_out(fields), **precision}, "Accelerate", None, notes)


def _spelled_out(fields: Mapping[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": fields.get("gradient_accumulation_steps", "auto"),
    }
    if fields.get("gradient_clipping", "auto"):
        config["gradient_clipping"] = fields.get("gradient_clipping", "auto")
    zero: dict[str, Any] = {"stage": fields.get("zero_stage", 2)}
    for part in ("optimizer", "param"):
        device = str(fields.get(f"offload_{part}_device", "none"))
        if device != "none":
            zero[f"offload_{part}"] = {"device": device}
        if device == "nvme":
            zero[f"offload_{part}"]["nvme_path"] = fields.get(f"offload_{part}_nvme_path")
    if zero["stage"] == 3:
        gather = bool(fields.get("zero3_save_16bit_model", False))
        zero["stage3_gather_16bit_weights_on_model_save"] = gather
    return {**config, "zero_optimization": zero}


def _precision(word: str) -> dict[str, Any]:
    if word not in ("fp16", "bf16"):
        return {}
    return {word: {"enabled": True}}


_TOLD_OTHERWISE = {
    "deepspeed_hostfile": "zlaunch multinode --hostfile {}",
    "deepspeed_inclusion_filter": "--include {}",
    "deepspeed_exclusion_filter": "--exclude {}",
}


def _notes(data: Mapping[str, Any], fields: Mapping[str, Any]) -> tuple[str, ...]:
    notes = []
    machines, processes = data.get("num_machines", 1), data.get("num_processes")
    if isinstance(processes, int) and isinstance(machines, int) and machines > 0:
        way = f"--nproc {processes // machines}" if machines > 1 else f"--num-gpus {processes}"
        notes.append(f"num_processes {processes} on {machines}: {way}")
    for key, option in _TOLD_OTHERWISE.items():
        if fields.get(key):
            notes.append(f"{key}: {option.format(fields[key])}")
    if fields.get("zero3_init_flag"):
        notes.append("zero3_init_flag: the script calls deepspeed.zero.Init, or its reader does")
    if data.get("mixed_precision") == "fp8":
        notes.append("mixed_precision fp8 has no section in a ds_config")
    return tuple(notes)
