"""What DeepSpeed takes under each key of a ds_config, as data.

The sections that DeepSpeed reads with pydantic models are exported by the installed DeepSpeed
itself (`system/ds_schema.py`) and come here as plain JSON; all else, and everything where
DeepSpeed is not installed, comes from the table in `keys`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from zlaunch.dsconfig.defaults import (
    CHOICES,
    DEPRECATED,
    NOT_KNOWN,
    default_of,
    limits_of,
)
from zlaunch.dsconfig.keys import KEYS, Leaf, Tree
from zlaunch.dsconfig.versions import (
    HALF_MODELS_SINCE,
    NEWEST_READ,
    Version,
    gone_by,
    once_known,
    since,
)
from zlaunch.frozen import frozen

UNKNOWN: Any = NOT_KNOWN  # the default of a field whose default is not known

# Read with models that take `"true"` for true and refuse what they do not know.
MODELS = frozenset(
    {
        *("zero_optimization", "fp16", "bf16", "bfloat16", "compile", "tensor_parallel"),
        *("comms_logger", "tensorboard", "wandb", "csv_monitor", "comet", "hybrid_engine"),
        *("timers.throughput", "weight_quantization"),
    }
)
_HALF = frozenset({"fp16", "bf16", "bfloat16"})


@frozen
class Field:
    """One key: the kinds of value that it takes, and what else is known of it.

    `kinds` are int, float, bool, str, list, dict, section and any; `fields` are those of a
    section, and `open` says that DeepSpeed hands on what else it finds there. `new` names the
    key that replaces a deprecated one, `also` another name for the same.
    `lax` fields are read by a pydantic model, which turns texts into numbers and words.
    """

    kinds: tuple[str, ...]
    default: Any = UNKNOWN
    null: bool = False
    choices: tuple[Any, ...] = ()
    limits: Mapping[str, float] = field(default_factory=dict)
    deprecated: bool = False
    new: str = ""
    also: str = ""
    fields: Mapping[str, Field] = field(default_factory=dict)
    open: bool = False
    lax: bool = False

    def find(self, name: str) -> Field | None:
        """The field of this section under that name, or under its other one."""
        found = self.fields.get(name)
        if found is not None or not name:
            return found
        return next((field for field in self.fields.values() if field.also == name), None)


@frozen
class Schema:
    """The keys of one DeepSpeed.

    `exact` where it was exported by it; else `why` may say what stood against that. `optimizers`
    and `schedulers` are the types that can be named, empty where they are not known; `parameters`
    are those of torch's optimizers, `scheduler_parameters` all and the needed ones of torch's
    schedulers.
    """

    root: Field
    version: Version
    exact: bool = False
    origin: str = ""
    why: str = ""
    optimizers: frozenset[str] = frozenset()
    schedulers: frozenset[str] = frozenset()
    parameters: Mapping[str, frozenset[str]] = field(default_factory=dict)
    scheduler_parameters: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(
        default_factory=dict
    )

    def field(self, *path: str) -> Field | None:
        """The field at a path; None where there is none, or below an open section."""
        found: Field | None = self.root
        for name in path:
            found = found.find(name) if found is not None else None
        return found

    def names(self) -> Iterator[tuple[str, ...]]:
        """The path of every key."""
        yield from _names(self.root, ())


def _names(section: Field, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, one in section.fields.items():
        yield (*above, name)
        yield from _names(one, (*above, name))


def own_schema(version: Version | None = None, why: str = "") -> Schema:
    """The schema from zlaunch's own table, for a version, or else for the newest it knows.

    `why` says what stood against asking DeepSpeed itself.
    """
    version = version or NEWEST_READ
    fields = _from_tree(KEYS, (), version)
    fields["bfloat16"] = fields["bf16"]  # its old name, which is read where bf16 is absent
    for path in once_known(version):
        _put(fields, path)
    return Schema(Field(("section",), fields=fields), version, why=why)


def exported_schema(data: Mapping[str, Any], version: Version) -> Schema:
    """The schema that a DeepSpeed exported, with the table for what it has no models for."""
    own = own_schema(version)
    fields = dict(own.root.fields)
    for name, exported in data["sections"].items():
        section, _, below = name.partition(".")
        model = _from_json(exported)
        if below:
            model = replace(fields[section], fields={**fields[section].fields, below: model})
        fields[section] = model
    return Schema(
        Field(("section",), fields=fields),
        version,
        exact=True,
        origin=data.get("origin", ""),
        optimizers=frozenset(data.get("optimizers", ())),
        schedulers=frozenset(data.get("schedulers", ())),
        parameters={
            name: frozenset(names)
            for name, names in data.get("parameters", {}).items()
            if names is not None
        },
        scheduler_parameters={
            name: (tuple(known), tuple(needed))
            for name, (known, needed) in data.get("scheduler_parameters", {}).items()
        },
    )


def _from_tree(tree: Tree, above: tuple[str, ...], version: Version) -> dict[str, Field]:
    fields = {}
    for name, node in tree.items():
        path = (*above, name)
        first = since(path)
        if name == "*" or gone_by(path, version) or (first is not None and version < first):
            continue
        fields[name] = _of_node(node, path, version)
    return fields


def _of_node(node: Leaf | Tree, path: tuple[str, ...], version: Version) -> Field:
    lax = any(".".join(path[:end]) in MODELS for end in range(1, len(path) + 1))
    if path[0] in _HALF and version < HALF_MODELS_SINCE:
        lax = False
    if isinstance(node, dict):
        return Field(
            ("section",), fields=_from_tree(node, path, version), open="*" in node, lax=lax
        )
    key = ".".join(path)
    default = default_of(key, node, version)
    return Field(
        tuple(node.split("|")),
        default=default,
        null=lax and default is None,
        choices=CHOICES.get(key, ()),
        limits=limits_of(key, node),
        deprecated=key in DEPRECATED,
        new=DEPRECATED.get(key, ""),
        lax=lax,
    )


def _put(fields: dict[str, Field], path: tuple[str, ...]) -> None:
    """Add a key of which only its name is known."""
    name, *below = path
    if not below:
        fields[name] = Field(("any",), open=True)
        return
    section = fields.get(name, Field(("section",)))
    inner = dict(section.fields)
    _put(inner, tuple(below))
    fields[name] = replace(section, fields=inner)


def _from_json(data: Mapping[str, Any]) -> Field:
    """The field that the program of `system/ds_program.py` wrote."""
    return Field(
        kinds=tuple(data["kinds"]),
        default=data.get("default", UNKNOWN),
        null=data.get("null", False),
        choices=tuple(data.get("choices", ())),
        limits=data.get("limits", {}),
        deprecated=data.get("deprecated", False),
        new=data.get("new", ""),
        also=data.get("also", ""),
        fields={name: _from_json(one) for name, one in data.get("fields", {}).items()},
        open=data.get("open", False),
        lax=True,
    )
