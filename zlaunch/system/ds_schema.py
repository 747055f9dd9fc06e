"""The schema of the DeepSpeed that the workers will import, asked of it once and kept.

Importing DeepSpeed takes seconds and starts torch, so its models are exported by a process of
the workers' interpreter. The answer is kept in the user's cache under the version and the path
of that DeepSpeed; what an interpreter finds is kept beside it, so that a later look starts no
process at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FORM = 2  # of the files in the cache: another form is asked for anew
_PATIENCE = 120  # seconds; the first import of torch from a network disk is slow

# Run by the workers' interpreter; pydantic 1 (DeepSpeed before 0.15) and 2.
_ASK = r"""
import enum, inspect, json, os, pathlib, sys, typing
sys.path[:] = [p for p in sys.path if p != ""]
try:
    import deepspeed
    import torch
    from deepspeed.runtime import config as ds
    from deepspeed.runtime import lr_schedules
except ImportError as error:
    print("\nSCHEMA " + json.dumps({"missing": str(error)}))
    sys.exit()
def plain(value):
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return None if value is None else str(value)
def is_model(kind):
    return inspect.isclass(kind) and (hasattr(kind, "model_fields") or hasattr(kind, "__fields__"))
def describe(kind, out):
    origin = typing.get_origin(kind)
    if kind is type(None):
        out["null"] = True
    elif origin is typing.Union or type(kind).__name__ == "UnionType":
        for one in typing.get_args(kind):
            describe(one, out)
    elif origin is typing.Literal:
        out["choices"] = plain(typing.get_args(kind))
        out["kinds"].append("str")
    elif is_model(kind):
        out["kinds"].append("section")
        out["fields"] = fields(kind)
    elif inspect.isclass(kind) and issubclass(kind, enum.Enum):
        values = []
        for one in kind:
            if plain(one) not in values:
                values.append(plain(one))
        out["choices"] = values
        out["kinds"].append("int" if isinstance(values[0], int) else "str")
    elif kind in (bool, int, float, str):
        out["kinds"].append(kind.__name__)
    elif inspect.isclass(kind) and issubclass(kind, pathlib.PurePath):
        out["kinds"].append("str")
    elif (origin or kind) in (list, tuple):
        out["kinds"].append("list")
    elif (origin or kind) is dict:
        out["kinds"].append("dict")
    else:
        out["kinds"].append("any")
LIMITS = ("gt", "ge", "lt", "le")
def fields(model):
    found = {}
    two = getattr(model, "model_fields", None)
    for name, one in (two or model.__fields__).items():
        info = one if two else one.field_info
        out = {"kinds": []}
        describe(one.annotation if two else one.outer_type_, out)
        if not two and one.allow_none:
            out["null"] = True
        extra = (info.json_schema_extra if two else info.extra) or {}
        limits = {k: float(v) for k in LIMITS for o in ([info, *info.metadata] if two else [info])
                  for v in [getattr(o, k, None)] if v is not None}
        if limits:
            out["limits"] = limits
        if extra.get("deprecated"):
            out["deprecated"] = True
            out["new"] = extra.get("new_param", "")
        default = one.default
        if type(default).__name__ not in ("PydanticUndefinedType", "UndefinedType"):
            out["default"] = {} if is_model(type(default)) else plain(default)
            if default is None:
                out["null"] = out.get("null", False) or not two
        key = one.alias or name
        if key != name:
            out["also"] = name
        found[key] = out
    return found
SECTIONS = {
    "zero_optimization": "deepspeed.runtime.zero.config:DeepSpeedZeroConfig",
    "fp16": "deepspeed.runtime.precision_config:DeepSpeedFP16Config",
    "bf16": "deepspeed.runtime.precision_config:DeepSpeedBF16Config",
    "bfloat16": "deepspeed.runtime.precision_config:DeepSpeedBF16Config",
    "compile": "deepspeed.compile.config:CompileConfig",
    "tensor_parallel": "deepspeed.runtime.tensor_parallel.config:TPTrainingConfig",
    "comms_logger": "deepspeed.comm.config:CommsLoggerConfig",
    "tensorboard": "deepspeed.monitor.config:TensorBoardConfig",
    "wandb": "deepspeed.monitor.config:WandbConfig",
    "csv_monitor": "deepspeed.monitor.config:CSVConfig",
    "comet": "deepspeed.monitor.config:CometConfig",
    "hybrid_engine": "deepspeed.runtime.config:HybridEngineConfig",
    "timers.throughput": "deepspeed.utils.config:DeepSpeedThroughputTimerConfig",
}
sections = {}
for name, place in SECTIONS.items():
    module, _, cls = place.partition(":")
    try:
        model = getattr(__import__(module, fromlist=[cls]), cls)
        sections[name] = {"kinds": ["section"], "fields": fields(model)}
    except (ImportError, AttributeError):
        pass
def classes(module, base):
    return sorted(n for n, o in vars(module).items() if inspect.isclass(o) and issubclass(o, base)
                  and o is not base)
optimizers = sorted({*ds.DEEPSPEED_OPTIMIZERS, *classes(torch.optim, torch.optim.Optimizer)})
schedulers = sorted({*lr_schedules.VALID_LR_SCHEDULES,
    *classes(torch.optim.lr_scheduler, torch.optim.lr_scheduler.LRScheduler)})
print("\nSCHEMA " + json.dumps({"version": deepspeed.__version__.strip(), "sections": sections,
    "optimizers": optimizers, "schedulers": schedulers,
    "origin": os.path.dirname(deepspeed.__file__)}))
"""


@dataclass(frozen=True)
class Installed:
    """A DeepSpeed as it lies on disk."""

    version: str
    path: str


def find_deepspeed() -> Installed | None:
    """The DeepSpeed that this interpreter would import; nothing is imported."""
    try:
        spec = importlib.util.find_spec("deepspeed")
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec else []
    return _look(places[0]) if places else None


def _look(path: str) -> Installed | None:
    """What the directory beside a package, or the package itself, says of its version."""
    beside, name = os.path.split(path)
    with contextlib.suppress(OSError):
        for found in os.listdir(beside):  # noqa: PTH208 - names are all that is wanted
            if found.startswith(f"{name}-") and found.endswith(".dist-info"):
                return Installed(found[len(name) + 1 : -len(".dist-info")], path)
    return _source_tree(path, beside)


def _source_tree(path: str, beside: str) -> Installed | None:
    """A DeepSpeed that is used from where its sources lie."""
    for file in (Path(path, "git_version_info_installed.py"), Path(beside, "version.txt")):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            found = re.search(r"\d+\.\d+\.\d+", file.read_text("utf-8"))
            if found:
                return Installed(found[0], path)
    return Installed("0", path) if Path(path, "__init__.py").is_file() else None


class SchemaCache:
    """The files in the user's cache directory; who cannot write there goes without."""

    def __init__(self, env: Mapping[str, str]) -> None:
        base = env.get("XDG_CACHE_HOME") or ""
        home = Path(base) if os.path.isabs(base) else _home(env) / ".cache"  # noqa: PTH117
        self.directory = home / "zlaunch"

    def kept(self, python: str | None) -> dict[str, Any] | None:
        """What is kept for the workers' interpreter, None for our own; starts no process."""
        python = _other(python)
        installed = self._installed(python)
        return None if installed is None else self._read(_schema_name(installed))

    def ask(self, python: str | None, env: Mapping[str, str]) -> dict[str, Any] | None:
        """The schema, asked of the interpreter where it is not kept; None without DeepSpeed."""
        python = _other(python)
        kept = self.kept(python)
        if kept is not None:
            return kept
        if python is None and find_deepspeed() is None:
            return None
        answer = _ask(python or sys.executable, env)
        if answer is None or "missing" in answer:
            return None
        installed = Installed(answer["version"], answer["origin"])
        found = find_deepspeed() if python is None else None
        self._write(_schema_name(found or installed), answer)
        if python is not None:
            data = {"version": installed.version, "path": installed.path}
            self._write(_interpreter_name(python), data)
        return answer

    def _installed(self, python: str | None) -> Installed | None:
        if python is None:
            return find_deepspeed()
        kept = self._read(_interpreter_name(python))
        if kept is None:
            return None
        now = _look(kept["path"])
        known = Installed(kept["version"], kept["path"])
        # A source tree says its version otherwise than the package does.
        same = now is not None and parse(now.version) == parse(known.version)
        return known if same else None

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            data = json.loads((self.directory / name).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return data if isinstance(data, dict) and data.get("form") == _FORM else None

    def _write(self, name: str, data: Mapping[str, Any]) -> None:
        """Beside and renamed, so that nobody reads half of it."""
        import tempfile

        text = json.dumps({"form": _FORM, **data})
        with contextlib.suppress(OSError):
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd, beside = tempfile.mkstemp(dir=self.directory, prefix=f".{name}.")  # mode 0600
            try:
                with os.fdopen(fd, "w", encoding="utf-8") as file:
                    file.write(text)
                os.replace(beside, self.directory / name)  # noqa: PTH105
            except OSError:
                os.unlink(beside)  # noqa: PTH108


def parse(version: str) -> str:
    """A version without what a build adds to it."""
    return version.partition("+")[0]


def _home(env: Mapping[str, str]) -> Path:
    home = env.get("HOME")
    return Path(home) if home else Path(os.path.expanduser("~"))  # noqa: PTH111


def _other(python: str | None) -> str | None:
    """The interpreter by its whole path, so that a name on PATH is no other's; None for ours."""
    found = shutil.which(python) if python is not None else None
    return None if found == sys.executable else found or python


def _schema_name(installed: Installed) -> str:
    path = hashlib.sha256(installed.path.encode(errors="surrogateescape")).hexdigest()[:16]
    return f"deepspeed-{parse(installed.version)}-{path}.json"


def _interpreter_name(python: str) -> str:
    name = hashlib.sha256(python.encode(errors="surrogateescape")).hexdigest()[:16]
    return f"python-{name}.json"


def _ask(python: str, env: Mapping[str, str]) -> dict[str, Any] | None:
    """Without the devices, which are none of its business; 0.14.0 has no other way than them."""
    quiet = {**env, "DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    return _answer(python, quiet) or _answer(python, env)


def _answer(python: str, env: Mapping[str, str]) -> dict[str, Any] | None:
    import subprocess

    try:
        done = subprocess.run(
            [python, "-c", _ASK],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(b"SCHEMA "):
            answer: dict[str, Any] = json.loads(line[len(b"SCHEMA ") :])
            return answer
    return None
