"""Configs that others wrote: base64, YAML, and what `accelerate config` saves, as a ds_config."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

from zlaunch.dsconfig.accelerate_file import is_accelerate_file, read_accelerate_file
from zlaunch.dsconfig.document import Document
from zlaunch.dsconfig.finding import Finding
from zlaunch.dsconfig.reader import read_document
from zlaunch.dsconfig.source import read_source
from zlaunch.dsconfig.target import Target
from zlaunch.dsconfig.yaml_text import read_yaml
from zlaunch.frozen import frozen

Kind = Literal["JSON", "base64", "YAML", "Accelerate"]

_GAS = "gradient_accumulation_steps"


@frozen
class Imported:
    """A ds_config and the text that it was read from.

    `document` is the ds_config, with the places of that text, and `written` what stands there.
    `findings` are about the form, not about the ds_config. `config_file` is the path of a
    ds_config that an Accelerate file names instead of spelling one. `processes` are those that
    an Accelerate file starts. `notes` say what has no place in a ds_config, and how zlaunch is
    told it.
    """

    document: Document
    kind: Kind
    text: str
    written: Document
    findings: tuple[Finding, ...] = ()
    config_file: str | None = None
    processes: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def config(self) -> dict[str, Any]:
        """The ds_config; empty where it cannot be read."""
        return self.document.value if isinstance(self.document.value, dict) else {}

    @property
    def form(self) -> str:
        """What the text is, in words."""
        return "a file of accelerate config" if self.kind == "Accelerate" else self.kind

    @property
    def target(self) -> Target | None:
        """Who reads it, where that is known of such a file."""
        return "accelerate" if self.kind == "Accelerate" else None


def import_config(text: str, name: str) -> Imported:
    """Recognise what `text` is and return the ds_config that it means.

    JSON and hjson are read as `read_source` does. What is wrong inside is found, by this or by
    `lint`. Raises ConfigError for an empty text.
    """
    text = text.removeprefix("\ufeff")
    decoded = _from_base64(text)
    if decoded is not None:
        return _of_document(read_document(decoded), "base64", decoded)
    if not _is_yaml(text, name):
        return _of_document(read_source(text, name), "JSON", text)
    document, findings = read_yaml(text)
    found = _of_document(document, "YAML", text)
    wrong = {finding.place for finding in findings if finding.level == "error"}
    others = (finding for finding in found.findings if finding.place not in wrong)
    return replace(found, findings=(*findings, *others))


def _of_document(document: Document, kind: Kind, text: str) -> Imported:
    if not is_accelerate_file(document.value):
        return Imported(document, kind, text, document)
    file = read_accelerate_file(document)
    return Imported(
        file.document,
        "Accelerate",
        text,
        document,
        (*_slips(document), *file.findings),
        file.config_file,
        file.processes,
        file.notes,
    )


def _slips(document: Document) -> Iterator[Finding]:
    """What in an Accelerate file in JSON is not JSON: it goes through json.load."""
    for slip in document.oddities:
        path = ".".join(map(str, slip.where))
        yield Finding(slip.code, "error", path, slip.place, slip.text, slip.mend)


def named_in_place(config_file: str) -> dict[str, Any] | None:
    """The ds_config where one stands in place of the path, as JSON or base64."""
    decoded = _from_base64(config_file)
    try:
        found = json.loads(decoded if decoded is not None else config_file)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def as_accelerate_completes(document: Document) -> Document:
    """A ds_config that an Accelerate file names, with what the plugin adds to it."""
    if not isinstance(document.value, dict) or _GAS in document.value:
        return document
    return replace(document, value={**document.value, _GAS: 1})


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


def _is_yaml(text: str, name: str) -> bool:
    """By the name, else by a first line of `key:` that is no quoted JSON.

    DeepSpeed reads the same line as hjson, which a name can say as well.
    """
    braces = text.lstrip().startswith("{")
    if name.endswith((".yaml", ".yml")):
        return not (braces and _is_json(text))
    if braces or name.endswith((".json", ".hjson")):
        return False
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith(("#", "---", "%")):
            return re.match(r"""["']?[\w.-]+["']?\s*:(\s|$)""", line) is not None
    return False


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
