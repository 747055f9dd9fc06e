"""A ds_config that the user names: a file, `-`, a recipe, or a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from zlaunch.cli.ds_config import make_ds_config
from zlaunch.cli.findings_text import refuse_errors, say
from zlaunch.cli.place import Devices
from zlaunch.cli.recipe_files import recipe_sources
from zlaunch.cli.request import Request
from zlaunch.cli.user_files import read_file, similar_files
from zlaunch.dsconfig.accelerate_file import other_ranks
from zlaunch.dsconfig.accelerate_written import CONFIG_FILE, SECTION
from zlaunch.dsconfig.document import Document
from zlaunch.dsconfig.finding import Finding
from zlaunch.dsconfig.foreign import (
    Imported,
    as_accelerate_completes,
    import_config,
    named_in_place,
)
from zlaunch.dsconfig.recipes import recipe_names
from zlaunch.dsconfig.source import as_config, read_source
from zlaunch.errors import ConfigError, InputError
from zlaunch.frozen import frozen
from zlaunch.spec.environment import Target
from zlaunch.system.run_store import RunStore, home_directory

STDIN = "-"


@frozen
class Part:
    """One text that a ds_config was read from, and what was found in it."""

    name: str
    text: str
    findings: tuple[Finding, ...]


@frozen
class Named:
    """A ds_config and where it was read from.

    `document` is what to look at. `below` is the name and the text of a file that Accelerate's
    configuration names: places of `document` are places there.
    """

    name: str
    imported: Imported
    document: Document
    below: tuple[str, str] | None = None

    @property
    def config(self) -> Mapping[str, Any]:
        """The ds_config; empty where it cannot be read."""
        return self.document.value if isinstance(self.document.value, dict) else {}

    def parts(self, found: Sequence[Finding], ranks: int | None = None) -> tuple[Part, ...]:
        """Everything found, by the text that it is found in; `found` is what lint says.

        What is wrong with the form is not judged a second time for what was made of it.
        """
        form = self.imported.findings
        form += tuple(other_ranks(self.imported.written, ranks)) if self.imported.processes else ()
        if self.below is not None:
            outer = Part(self.name, self.imported.text, _in_order(form))
            return (outer, Part(*self.below, tuple(found)))
        wrong = {finding.place for finding in form if finding.level == "error"} - {None}
        rest = [finding for finding in found if finding.place not in wrong]
        return (Part(self.name, self.imported.text, _in_order([*form, *rest])),)


def _in_order(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """In the order of the text."""
    return tuple(
        sorted(
            findings, key=lambda one: (one.place.line, one.place.column) if one.place else (0, 0)
        )
    )


def recognise(text: str, name: str) -> Named:
    """Return the ds_config that a text means, with that of the file that it names.

    Raises ConfigError for an empty text.
    """
    found = import_config(text, name)
    if found.config_file is None:
        return Named(name, found, found.document)
    return _follow(found, name, found.config_file)


def _follow(found: Imported, name: str, config_file: str) -> Named:
    """Accelerate itself looks from the working directory; people keep the two side by side."""
    beside = Path(name).parent / config_file
    path = Path(config_file) if Path(config_file).exists() or not beside.exists() else beside
    if not path.exists():
        inline = named_in_place(config_file)
        if inline is not None:
            return Named(name, found, as_accelerate_completes(Document(inline)))
        alike = similar_files(config_file) or ""
        found = _told(found, f"{config_file} was not found", "error", "missing-file", alike)
        return Named(name, found, Document(None, complete=False))
    text = read_file(path, f"{CONFIG_FILE} {path}", error=ConfigError)
    if path == beside and path != Path(config_file):
        said = f"{config_file} lies beside this file; Accelerate looks from where it is started"
        found = _told(found, said, "note", "beside")
    document = as_accelerate_completes(read_source(text, str(path)))
    return Named(name, found, document, (str(path), text))


def _told(found: Imported, text: str, level: Any, code: str, mend: str = "") -> Imported:
    place = found.written.place((SECTION, CONFIG_FILE), of_value=True)
    finding = Finding(code, level, f"{SECTION}.{CONFIG_FILE}", place, text, mend)
    return replace(found, findings=(*found.findings, finding))


def read_named(name: str) -> Named:
    """Return the ds_config behind a name, in whatever form it is written.

    Raises InputError.
    """
    return recognise(*_text(name))


def _text(name: str) -> tuple[str, str]:
    """The text, and what its places are told with."""
    if name == STDIN:
        return read_stdin(), "stdin"
    if Path(name).is_file():
        return read_file(name, f"config {name}", error=ConfigError), name
    run = _of_run(name)
    if run is not None:
        return read_file(run, f"the ds_config of {name}", error=ConfigError), str(run)
    if Path(name).exists() or "/" in name or name.endswith((".json", ".yaml", ".yml", ".hjson")):
        return read_file(name, f"config {name}", error=ConfigError), name
    raise InputError(
        f"{name} is no file, no recipe and no run",
        hint=similar_files(name) or "zlaunch recipes list, zlaunch ps",
    )


def read_stdin() -> str:
    """Return what comes on stdin.

    Raises ConfigError where it is no UTF-8 text.
    """
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError("stdin is not UTF-8 text") from None


def _of_run(name: str) -> Path | None:
    store = RunStore(home_directory(os.environ))
    try:
        run = store.find(name)
    except InputError:
        return None
    return run.ds_config if run.ds_config.is_file() else None


def config_of(name: str, *, target: Target = "plain", world_size: int = 1) -> Mapping[str, Any]:
    """Return the ds_config behind a name, which may be a recipe: that is rendered.

    Raises ConfigError where it cannot be read as it was meant.
    """
    if name in recipe_names(recipe_sources()) or name.endswith(".toml"):
        made = make_ds_config(
            Request(script="", recipe=name), target, world_size, Devices("cuda", (0,)), os.environ
        )
        if made.config is None:
            raise InputError(f"recipe {name} trains without DeepSpeed: it has no ds_config")
        return made.config
    found = read_named(name)
    for part in found.parts(()):
        refuse_errors(part.findings, part.name)
        say(part.findings, part.name)
    return as_config(found.document, found.below[0] if found.below else found.name)
