"""Reads the shape of the model that the user names: a folder, a config.json, safetensors.

Nothing is downloaded, torch is not imported, and of weights only the headers are read.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from zlaunch.cli.user_files import read_file, similar_files
from zlaunch.errors import ConfigError
from zlaunch.memory.config_keys import parse_json
from zlaunch.memory.model_config import shape_of_config
from zlaunch.memory.safetensors import PREFIX, Stored, header_length, parse_header, shards
from zlaunch.memory.shape import ModelShape
from zlaunch.memory.stored_shape import shape_of_stored, with_stored

_INDEX = "model.safetensors.index.json"
_LONGEST = 50_000_000  # bytes of JSON; the index of the largest open model has 10 MB


def read_shape(name: str) -> ModelShape:
    """The shape of the model `name`.

    Raises ConfigError with the file, and the line where there is one.
    """
    path = Path(name)
    try:
        there, folder = path.exists(), path.is_dir()
    except (OSError, ValueError) as error:
        raise ConfigError(f"--model {name!r} is no file name: {error}") from None
    if not there:
        raise ConfigError(f"--model {name} was not found", hint=_way_to(name))
    if folder:
        return _from_folder(path)
    if not path.is_file():
        raise ConfigError(f"--model {name} is neither a file nor a folder")
    if path.suffix == ".safetensors":
        return shape_of_stored(_header(path), name)
    text = _json_text(path, f"--model {name}")
    table = parse_json(text, name)
    if "weight_map" in table:
        return _from_index(path, table)
    return shape_of_config(text, name)


def _from_folder(folder: Path) -> ModelShape:
    config = folder / "config.json"
    stored = _stored(folder)
    if config.is_file():
        shape = shape_of_config(_json_text(config, str(config)), str(config))
        return with_stored(shape, stored, str(folder)) if stored else shape
    if stored:
        return shape_of_stored(stored, str(folder))
    raise ConfigError(
        f"--model {folder}: no config.json and no .safetensors in this folder",
        hint="the folder of a checkpoint has both; --params 7b plans without one",
    )


def _stored(folder: Path) -> tuple[Stored, ...]:
    """The tensors of a folder's checkpoint; none where it has none, or not all of its shards."""
    index = folder / _INDEX
    if index.is_file():
        table = parse_json(_json_text(index, str(index)), str(index))
        files = [folder / name for name in shards(table, str(index))]
        return _headers(files) if all(file.is_file() for file in files) else ()
    whole = folder / "model.safetensors"
    return _headers([whole] if whole.is_file() else sorted(folder.glob("model-*.safetensors")))


def _from_index(path: Path, table: dict[str, Any]) -> ModelShape:
    files = [path.parent / name for name in shards(table, str(path))]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise ConfigError(
            f"{missing[0]} is missing beside this index",
            where=str(path),
            hint="give its config.json instead",
        )
    if (path.parent / "config.json").is_file():
        return _from_folder(path.parent)
    return shape_of_stored(_headers(files), str(path))


def _headers(files: list[Path]) -> tuple[Stored, ...]:
    return tuple(tensor for file in files for tensor in _header(file))


def _header(path: Path) -> tuple[Stored, ...]:
    where = str(path)
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = header_length(file.read(PREFIX), size, where)
            return parse_header(file.read(length), where)
    except OSError as error:
        raise ConfigError(f"{where} cannot be read: {error.strerror}") from error


def _json_text(path: Path, what: str) -> str:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ConfigError(f"{what} cannot be read: {error.strerror}") from error
    if size > _LONGEST:
        raise ConfigError(f"{what} has {size:,} bytes, too many for a config.json")
    return read_file(path, what, error=ConfigError)


def _way_to(name: str) -> str | None:
    """What to give instead of a name on the Hugging Face Hub, else what is spelled alike."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return similar_files(name)
    home = os.environ.get("HF_HOME") or str(Path("~/.cache/huggingface").expanduser())
    cached = Path(home, "hub", f"models--{name.replace('/', '--')}", "snapshots")
    found = sorted(cached.glob("*/config.json"))
    if found:
        return f"it is in the local cache: --model {found[-1].parent}"
    return "nothing is downloaded: give a folder or a config.json that is here"
