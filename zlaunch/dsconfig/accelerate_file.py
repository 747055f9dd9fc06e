"""What `accelerate config` saves, and the ds_config that Accelerate makes of it.

Read as Accelerate 1.15 does: `BaseConfig` in commands/config/config_args.py takes the fields,
commands/launch.py and utils/launch.py hand them on as environment variables, and
`DeepSpeedPlugin` in utils/dataclasses.py builds the config from those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from zlaunch.dsconfig.accelerate_checks import check_written
from zlaunch.dsconfig.accelerate_fields import FIELDS, PRECISIONS, RefusedFieldError
from zlaunch.dsconfig.accelerate_notes import notes_on
from zlaunch.dsconfig.accelerate_written import CONFIG_FILE, SECTION, Written
from zlaunch.dsconfig.document import Document, Position, Where
from zlaunch.dsconfig.finding import Finding, Level, said
from zlaunch.dsconfig.versions import CLIPPING_IS_ONE_SINCE, spelled
from zlaunch.frozen import frozen

# Keys that no ds_config has at its top.
_MARKS = frozenset({"compute_environment", "distributed_type", SECTION, "num_processes"})
_ZERO = "zero_optimization"


@frozen
class AccelerateFile:
    """What an Accelerate file means.

    `config_file` is the path of a ds_config that it names instead of spelling one, and `document`
    then holds nothing. Places are those of the Accelerate file. `processes` is None where it
    leaves the number to the command line.
    """

    document: Document
    findings: tuple[Finding, ...]
    config_file: str | None
    processes: int | None
    notes: tuple[str, ...]


def is_accelerate_file(value: Any) -> bool:
    """Whether a config is one of Accelerate's."""
    return isinstance(value, Mapping) and bool(_MARKS & value.keys())


def read_accelerate_file(document: Document) -> AccelerateFile:
    """Build what Accelerate builds; what it refuses, or takes for something else, is found."""
    written = Written(document)
    plugin = _Plugin(written)
    if written.config_file is None:
        plugin.build()
    plugin.value("zero3_init_flag", None)
    return AccelerateFile(
        Document(plugin.config, plugin.keys, plugin.values),
        (*check_written(written), *plugin.findings),
        written.config_file,
        written.processes,
        tuple(notes_on(written)),
    )


def other_ranks(document: Document, ranks: int | None) -> Iterator[Finding]:
    """What is to be said where a file is looked at for other ranks than it starts."""
    written = Written(document)
    if ranks is None or written.processes in (None, ranks):
        return
    text = f"num_processes is {written.processes}, and this is looked at for {ranks} ranks"
    mend = f"write {ranks}, or leave the number of ranks to the file"
    yield written.finds("warning", "other-ranks", written.at("num_processes"), text, mend)


class _Plugin:
    """`DeepSpeedPlugin` without a config file, and with the places of the fields."""

    def __init__(self, written: Written) -> None:
        self.written = written
        self.config: dict[str, Any] = {}
        self.keys: dict[Where, Position] = {}
        self.values: dict[Where, Position] = {}
        self.findings: list[Finding] = []
        place = written.document.values.get(())
        if place is not None:
            self.values[()] = place

    def build(self) -> None:
        """The keys in the order in which Accelerate writes them."""
        self._put(("train_batch_size",), "auto", (SECTION,))
        self._put(("train_micro_batch_size_per_gpu",), "auto", (SECTION,))
        self._field("gradient_accumulation_steps", ("gradient_accumulation_steps",), "auto")
        self._clipping()
        stage = self._field("zero_stage", (_ZERO, "stage"), 2)
        self._offload("optimizer")
        self._offload("param")
        saves = "stage3_gather_16bit_weights_on_model_save"
        if self.value("zero3_save_16bit_model", False) or stage == 3:
            self._field("zero3_save_16bit_model", (_ZERO, saves), False)
        self._precision()

    def value(self, name: str, default: Any) -> Any:
        """A field as Accelerate reads it; what it cannot read is found once."""
        raw = self.written.fields.get(name)
        if raw is None:
            return default
        try:
            return FIELDS[name](raw)
        except RefusedFieldError as refused:
            where = (SECTION, name)
            if ".".join(where) not in {finding.path for finding in self.findings}:
                text = f"{name} is {said(raw)}; Accelerate reads {refused} there"
                self._find("error", "wrong-value", where, text, refused.mend)
            return default

    def _clipping(self) -> None:
        name = "gradient_clipping"
        value = self.value(name, "auto")
        if value != 0:
            self._put((name,), value, (SECTION, name))
            return
        text = "Accelerate leaves a gradient_clipping of 0 out, and DeepSpeed then clips at its"
        text += f" default, which is 1.0 since {spelled(CLIPPING_IS_ONE_SINCE)}"
        mend = f"write it into a ds_config, and name that with {CONFIG_FILE}"
        self._find("warning", "other-effect", (SECTION, name), text, mend)

    def _offload(self, part: str) -> None:
        section = (_ZERO, f"offload_{part}")
        device_field, path_field = f"offload_{part}_device", f"offload_{part}_nvme_path"
        device = self.value(device_field, "none")
        written = self.written.fields.get(path_field)
        if device != "none":
            self._put((*section, "device"), device, (SECTION, device_field))
        if device != "nvme":
            return
        nvme = None if written in (None, "none") else str(written)
        self._put((*section, "nvme_path"), nvme, (SECTION, path_field))
        if nvme is not None:
            text = f"accelerate launch does not hand {path_field} on to the script: under it"
            text += " DeepSpeed writes to a directory that is called none"
            mend = f"name a ds_config with {CONFIG_FILE}; zlaunch config import writes one"
            self._find("warning", "other-effect", (SECTION, path_field), text, mend)

    def _precision(self) -> None:
        """`set_mixed_precision`; fp8 computes in bf16 around its own layers."""
        top, where = self.written.top, self.written.at("mixed_precision")
        raw = top.get("mixed_precision")
        if raw is None:
            old = "mixed_precision" not in top and top.get("fp16")
            raw, where = ("fp16", self.written.at("fp16")) if old else ("no", where)
        word = str(raw).lower()
        if raw is False:
            text = "no is false to YAML, and Accelerate fails on it"
            self._find("error", "wrong-value", where, text, "write 'no', with quotes")
        elif word not in PRECISIONS:
            text = f"Accelerate knows no mixed_precision {said(raw)}"
            mend = f"one of {', '.join(PRECISIONS)}"
            self._find("error", "wrong-value", where, text, mend)
        for section, switches in PRECISIONS.get(word, {}).items():
            for name, switch in switches.items():
                self._put((section, name), switch, where)

    def _field(self, name: str, path: tuple[str, ...], default: Any) -> Any:
        value = self.value(name, default)
        self._put(path, value, (SECTION, name))
        return value

    def _put(self, path: tuple[str, ...], value: Any, source: Where) -> None:
        """Lay a value in; sections on the way stand where the first of their keys does."""
        table = self.config
        for name in path[:-1]:
            table = table.setdefault(name, {})
        table[path[-1]] = value
        for end in range(1, len(path) + 1):
            for places, of_value in ((self.keys, False), (self.values, True)):
                place = self.written.document.place(source, of_value=of_value)
                if place is not None:
                    places.setdefault(path[:end], place)

    def _find(self, level: Level, code: str, where: Where, text: str, mend: str) -> None:
        self.findings.append(self.written.finds(level, code, where, text, mend))
