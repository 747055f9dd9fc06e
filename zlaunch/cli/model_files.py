"""Reads the shape of the model that the user names: a folder, a config.json, safetensors.

Nothing is downloaded, torch is not imported, and of weights only the headers are read.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from zlaunch.cli.user_files import read_file, similar_files
from zlaunch.errors import ConfigError
from zlaunch.frozen import frozen
from zlaunch.memory.config_keys import parse_json
from zlaunch.memory.model_config import shape_of_config
from zlaunch.memory.quantized import config_bits
from zlaunch.memory.safetensors import (
    PREFIX,
    Index,
    Stored,
    header_length,
    parse_header,
    parse_index,
)
from zlaunch.memory.shape import ModelShape
from zlaunch.memory.stored_shape import shape_of_stored, with_stored

_INDEX = "model.safetensors.index.json"
_LONGEST = 50_000_000  # bytes of JSON; the index of the largest open model has 10 MB
_SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.safetensors")


@frozen
class _Checkpoint:
    """The tensors of a folder, and the files of it that are not there."""

    stored: tuple[Stored, ...] = ()
    missing: tuple[str, ...] = ()
    files: int = 0

    def complaint(self) -> str:
        """What is missing, for a sentence."""
        return f"{len(self.missing)} of its {self.files} files are missing, first {self.missing[0]}"


def read_shape(name: str) -> ModelShape:
    """The shape of the model `name`.

    Raises ConfigError with the file, and the line where there is one.
    """
    path = Path(name)
    try:
        return _read(path, name)
    except OSError as error:
        at = error.filename or name
        raise ConfigError(f"--model: {at} cannot be read: {error.strerror}") from error


def _read(path: Path, name: str) -> ModelShape:
    try:
        there = path.exists()
    except ValueError as error:  # a NUL in it
        raise ConfigError(f"--model {name!r} is no file name: {error}") from None
    if not there:
        raise ConfigError(f"--model {name} was not found", hint=_way_to(name))
    if path.is_dir():
        return _from_folder(path)
    if not path.is_file():
        raise ConfigError(f"--model {name} is neither a file nor a folder")
    if path.suffix == ".safetensors":
        return _from_weights(path, name)
    text = _json_text(path, f"--model {name}")
    if path.name.endswith(".index.json") or "weight_map" in parse_json(text, name):
        return _from_index(path, text)
    return shape_of_config(text, name)


def _from_folder(folder: Path) -> ModelShape:
    config = folder / "config.json"
    found = _checkpoint(folder)
    if not config.is_file():
        if found.missing:
            raise ConfigError(f"--model {folder}: {found.complaint()}", hint="and no config.json")
        if found.stored:
            return shape_of_stored(found.stored, str(folder))
        raise _nothing_in(folder)
    text = _json_text(config, str(config))
    shape = shape_of_config(text, str(config))
    if found.missing:
        note = f"{folder}: {found.complaint()}: parameters are counted from its config.json"
        return replace(shape, notes=(*shape.notes, note))
    if not found.stored:
        return shape
    return with_stored(shape, found.stored, str(folder), config_bits(parse_json(text, str(config))))


def _nothing_in(folder: Path) -> ConfigError:
    if (folder / "adapter_config.json").is_file():
        return ConfigError(
            f"--model {folder} holds an adapter, not a model",
            hint="give the folder of the model that it was trained on; adapters are not planned",
        )
    return ConfigError(
        f"--model {folder}: no config.json and no .safetensors in this folder",
        hint="the folder of a checkpoint has both; --params 7b plans without one",
    )


def _checkpoint(folder: Path) -> _Checkpoint:
    """The tensors of a folder's checkpoint; none where it has none, or not all of its files."""
    at = folder / _INDEX
    if at.is_file():
        index = _index(_json_text(at, str(at)), str(at))
        missing = tuple(name for name in index.files if not (folder / name).is_file())
        if missing:
            return _Checkpoint((), missing, len(index.files))
        stored = _headers([folder / name for name in index.files])
        index.check(stored, str(at))
        return _Checkpoint(stored)
    whole = folder / "model.safetensors"
    if whole.is_file():
        return _Checkpoint(_headers([whole]))
    return _without_index(folder)


def _without_index(folder: Path) -> _Checkpoint:
    """Files that number themselves: 1 of 3, 2 of 3, 3 of 3."""
    files = sorted(file for file in folder.glob("model-*.safetensors") if file.is_file())
    if not files:
        return _Checkpoint()
    numbered = _SHARD.fullmatch(files[0].name)
    if numbered:
        count = min(int(numbered[3]), 10_000)
        names = [f"{numbered[1]}-{n:05d}-of-{numbered[3]}.safetensors" for n in range(1, count + 1)]
        missing = tuple(name for name in names if not (folder / name).is_file())
        if missing:
            return _Checkpoint((), missing, count)
    return _Checkpoint(_headers(files))


def _from_weights(path: Path, name: str) -> ModelShape:
    numbered = _SHARD.fullmatch(path.name)
    if numbered and int(numbered[3]) > 1:
        raise ConfigError(
            f"--model {name} is one of {int(numbered[3])} files of a model",
            hint=f"give the folder: --model {path.parent}",
        )
    if path.name == "model.safetensors" and (path.parent / "config.json").is_file():
        return _from_folder(path.parent)
    return shape_of_stored(_header(path), name)


def _index(text: str, where: str) -> Index:
    return parse_index(parse_json(text, where, "an index of safetensors files"), where)


def _from_index(path: Path, text: str) -> ModelShape:
    index = _index(text, str(path))
    missing = [name for name in index.files if not (path.parent / name).is_file()]
    if missing:
        raise ConfigError(
            f"{missing[0]} is missing beside this index"
            + (f", and {len(missing) - 1} more" if len(missing) > 1 else ""),
            where=str(path),
            hint="give its config.json instead",
        )
    if path.name == _INDEX and (path.parent / "config.json").is_file():
        return _from_folder(path.parent)
    stored = _headers([path.parent / name for name in index.files])
    index.check(stored, str(path))
    return shape_of_stored(stored, str(path))


def _headers(files: list[Path]) -> tuple[Stored, ...]:
    return tuple(tensor for file in files for tensor in _header(file))


def _header(path: Path) -> tuple[Stored, ...]:
    where = str(path)
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = header_length(file.read(PREFIX), size, where)
        return parse_header(file.read(length), where)


def _json_text(path: Path, what: str) -> str:
    size = path.stat().st_size
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
