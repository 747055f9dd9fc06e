"""Lint of an Accelerate file: names of fields, what it starts, what it refuses side by side."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from zlaunch.dsconfig.accelerate_fields import (
    ALONE,
    FIELDS,
    OF_OTHER_VERSIONS,
    TOP,
    TYPES,
    whole_number,
)
from zlaunch.dsconfig.accelerate_written import CONFIG_FILE, SECTION, Written
from zlaunch.dsconfig.document import Where
from zlaunch.dsconfig.finding import Finding, Level, said
from zlaunch.dsconfig.keypath import known_paths
from zlaunch.dsconfig.keys import KEYS

_DEEPSPEED = "write distributed_type: DEEPSPEED"


def check_written(file: Written) -> Iterator[Finding]:
    """All that is wrong beside the values that make the ds_config."""
    for name in file.document.value:
        if name not in TOP:
            yield _unknown_top(file, name)
    section = file.document.value.get(SECTION)
    if section is not None and not isinstance(section, dict):
        text = f"{SECTION} is {said(section)}, not a section of fields"
        yield file.finds("error", "wrong-type", (SECTION,), text, "write its fields below it")
    for name in file.fields:
        if name not in FIELDS and name not in TOP and name.lower() not in ALONE:
            yield _unknown_field(file, name)
    yield from _type(file)
    yield from _numbers(file)
    yield from _config_file(file)


def _unknown_top(file: Written, name: str) -> Finding:
    if name in OF_OTHER_VERSIONS:
        text = f"{name} is a field of other versions of Accelerate; 1.15 refuses it"
        return file.finds("warning", "unknown-field", (name,), text, "take it out", key=True)
    near = difflib.get_close_matches(name, TOP, 1)
    text = f"Accelerate knows no field {name} at the top, and refuses it"
    mend = f"did you mean {near[0]}?" if near else "take it out"
    mend = f"move it into {SECTION}" if name in FIELDS else mend
    return file.finds("error", "unknown-field", (name,), text, mend, key=True)


def _unknown_field(file: Written, name: str) -> Finding:
    near = difflib.get_close_matches(name, [*FIELDS, *TOP], 1, 0.7)
    text = f"Accelerate knows no field {name} of {SECTION}, and does not read it"
    mend = f"did you mean {near[0]}?" if near else "take it out"
    of_deepspeed = name in KEYS or any(path[-1] == name for path in known_paths())
    if of_deepspeed:
        mend = f"that is a key of a ds_config: name a file of them with {CONFIG_FILE}"
    level: Level = "error" if near or of_deepspeed else "warning"
    return file.finds(level, "unknown-field", (SECTION, name), text, mend, key=True)


def _type(file: Written) -> Iterator[Finding]:
    """Whether it starts DeepSpeed, on machines of one's own."""
    where = file.at("distributed_type")
    kind = file.top.get("distributed_type")
    if "distributed_type" not in file.top:
        text = "distributed_type is missing, and Accelerate refuses a file without it"
        yield file.finds("error", "needs-key", (), text, _DEEPSPEED)
    elif isinstance(kind, str) and kind not in TYPES:
        near = difflib.get_close_matches(kind.upper(), TYPES, 1)
        text = f"Accelerate knows no distributed_type {said(kind)}"
        mend = f"did you mean {near[0]}?" if near else _DEEPSPEED
        yield file.finds("error", "wrong-value", where, text, mend)
    elif kind != "DEEPSPEED":
        name = kind if isinstance(kind, str) else "NO"
        text = f"this Accelerate configuration trains by {name}, not by DeepSpeed"
        mend = f"{_DEEPSPEED}; accelerate config asks whether to use it"
        yield file.finds("error", "not-deepspeed", where, text, mend)
    environment = file.top.get("compute_environment", "LOCAL_MACHINE")
    if environment != "LOCAL_MACHINE":
        text = f"compute_environment is {said(environment)}: that starts nothing on own machines"
        mend = "write LOCAL_MACHINE"
        yield file.finds("error", "wrong-value", file.at("compute_environment"), text, mend)
    if file.top.get("use_cpu") is True:
        text = "use_cpu has no effect where Accelerate starts DeepSpeed"
        yield file.finds("warning", "useless-key", file.at("use_cpu"), text, "take it out")


def _numbers(file: Written) -> Iterator[Finding]:
    for name, least in (("num_processes", -1), ("num_machines", 1)):
        raw = file.top.get(name)
        number = whole_number(raw)
        if raw is not None and (number is None or number < least or number == 0):
            text = f"{name} is {said(raw)}, not a number of {name.removeprefix('num_')}"
            yield file.finds("error", "wrong-value", file.at(name), text, "write a whole number")
    processes, machines = file.processes, file.machines
    if processes is not None and processes % machines:
        each = processes // machines
        text = f"{processes} processes do not divide by {machines} machines"
        text += f": Accelerate starts {each} on each"
        mend = f"write {max(1, each) * machines}"
        yield file.finds("error", "wrong-value", file.at("num_processes"), text, mend)


def _config_file(file: Written) -> Iterator[Finding]:
    """A ds_config that is named, and the fields that Accelerate refuses beside it."""
    named = file.fields.get(CONFIG_FILE)
    if named is not None and not isinstance(named, str):
        text = f"{CONFIG_FILE} is {said(named)}, not a path"
        mend = "write the path of a file"
        yield file.finds("error", "wrong-type", (SECTION, CONFIG_FILE), text, mend)
    beside = [name for name in file.fields if name.lower() in ALONE]
    if file.config_file is None:
        for name in beside:
            if name not in FIELDS and name not in TOP:
                yield _unknown_field(file, name)
        return
    for name in beside:
        yield _not_beside(file, name, (SECTION, name))
    # The launcher lays it down as one of the fields whatever it says, "no" as well.
    for name in ("mixed_precision", "fp16"):
        wanted = file.document.value.get(name)
        given = wanted is not None if name == "mixed_precision" else bool(wanted)
        if given and name not in file.fields:
            yield _not_beside(file, name, (name,))
            return


def _not_beside(file: Written, name: str, where: Where) -> Finding:
    text = f"Accelerate refuses {name} beside {CONFIG_FILE}"
    mend = f"take it out here, and write {ALONE[name.lower()]} in {file.config_file}"
    if file.top.get(name) in ("no", False):
        mend = "take it out here"
    return file.finds("error", "beside-config-file", where, text, mend, key=True)
