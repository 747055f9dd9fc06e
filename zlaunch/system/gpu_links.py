"""How the GPUs of this machine reach each other, and their slots, as the driver tells it.

NVML knows more; nvidia-smi stands in for it where its bindings are not there, as on a host with
nothing installed. Travels to the agent, so it stays within Python 3.9.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from zlaunch.frozen import frozen
from zlaunch.spec.links import Card, GpuLinks, Link
from zlaunch.system.gpus import run_smi
from zlaunch.system.nvml import ask_nvml, handles

_MOST_LINKS = 18  # of a GPU, where the bindings do not tell
_ANCESTORS = {  # NVML_TOPOLOGY_..., in the words of `nvidia-smi topo -m`
    0: "PIX",  # two GPUs of one board
    10: "PIX",
    20: "PXB",
    30: "PHB",
    40: "NODE",
    50: "SYS",
}
_GPU, _SWITCH = 0, 2  # NVML_NVLINK_DEVICE_TYPE_...
_P2P_NVLINK = 2  # NVML_P2P_CAPS_INDEX_NVLINK
_P2P_OK = 0
_SPEED, _COMMON_SPEED = 164, 90  # NVML_FI_DEV_NVLINK_GET_SPEED of a link, ..._SPEED_MBPS_COMMON
_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}


def gpu_links(indices: Sequence[int], *, timeout: float = 10.0) -> GpuLinks | None:
    """Ask for the links of the GPUs with these indices, as `discover` numbers them.

    None where there is nobody to ask. Raises BackendError where the driver fails, or does not
    answer within `timeout` seconds.
    """
    failed = "the links of the GPUs could not be read"
    answer = ask_nvml(lambda nvml: _read(_Nvml(nvml), indices), failed, timeout=timeout)
    return _ask_smi(indices, timeout) if answer is None else answer


# --- NVML ----------------------------------------------------------------------------


class _Nvml:
    """The bindings, with None for every question that fails.

    Half of these questions are unknown to one driver or another, and a virtual machine hides
    what it likes. A GPU that is lost is found by whoever lists them.
    """

    def __init__(self, bindings: Any) -> None:
        self.bindings = bindings
        self.link_numbers = range(getattr(bindings, "NVML_NVLINK_MAX_LINKS", _MOST_LINKS))

    def ask(self, name: str, *arguments: Any) -> Any:
        """Call the function of that name, where the bindings have it."""
        function = getattr(self.bindings, f"nvmlDevice{name}", None)
        try:
            return function(*arguments) if function is not None else None
        except self.bindings.NVMLError:
            return None


_A_SWITCH = "switch"


@frozen
class _Ends:
    """Where the NVLinks of a card that are up lead, by their numbers.

    A GPU's bus id, or a switch; None where the driver does not tell.
    """

    up: Mapping[int, str | None]
    down: int

    def to(self, *ends: str | None) -> int:
        """How many lead to one of `ends`."""
        return sum(end in ends for end in self.up.values())


def _read(nvml: _Nvml, indices: Sequence[int]) -> GpuLinks:
    every = dict(enumerate(handles(nvml.bindings)))
    bus = {index: _bus_id(nvml.ask("GetPciInfo", handle)) for index, handle in every.items()}
    devices = {index: every[index] for index in indices if index in every}
    known = frozenset(bus.values())
    ends = {index: _ends(nvml, handle, known) for index, handle in devices.items()}
    links = []
    for first, second in combinations(devices, 2):
        straight = ends[first].to(bus[second]) if bus[second] is not None else 0
        status = nvml.ask("GetP2PStatus", devices[first], devices[second], _P2P_NVLINK)
        switched = 0 if straight else _switched(ends[first], ends[second], status)
        level = nvml.ask("GetTopologyCommonAncestor", devices[first], devices[second])
        ancestor = _ANCESTORS.get(level) if level is not None else None
        links.append(Link(first, second, straight or switched, bool(switched), ancestor))
    cards = tuple(_card(nvml, index, handle, ends[index]) for index, handle in devices.items())
    return GpuLinks(cards, tuple(links))


def _switched(one: _Ends, other: _Ends, status: int | None) -> int:
    """How many NVLinks join two cards through switches.

    On some machines the switch is hidden, and then only the status says that there is a way;
    where the status is not told, two cards on a switch are taken for joined.
    """
    if status is None:
        return min(one.to(_A_SWITCH), other.to(_A_SWITCH))
    return min(one.to(_A_SWITCH, None), other.to(_A_SWITCH, None)) if status == _P2P_OK else 0


def _ends(nvml: _Nvml, handle: Any, known: frozenset[str | None]) -> _Ends:
    states = {number: nvml.ask("GetNvLinkState", handle, number) for number in nvml.link_numbers}
    up = [number for number, state in states.items() if state]
    down = sum(state == 0 for state in states.values())
    return _Ends({number: _other_end(nvml, handle, number, known) for number in up}, down)


def _other_end(nvml: _Nvml, handle: Any, number: int, known: frozenset[str | None]) -> str | None:
    kind = nvml.ask("GetNvLinkRemoteDeviceType", handle, number)
    if kind == _SWITCH:
        return _A_SWITCH
    bus_id = _bus_id(nvml.ask("GetNvLinkRemotePciInfo", handle, number))
    return bus_id if kind == _GPU or bus_id in known else None


def _bus_id(pci: Any) -> str | None:
    if pci is None:
        return None
    # Not the text, which has four or eight digits for the domain.
    return f"{pci.domain:x}:{pci.bus:x}:{pci.device:x}"


def _card(nvml: _Nvml, index: int, handle: Any, ends: _Ends) -> Card:
    numbers = list(ends.up)
    version = nvml.ask("GetNvLinkVersion", handle, numbers[0]) if numbers else None
    return Card(
        index,
        nvml.ask("GetCurrPcieLinkGeneration", handle),
        nvml.ask("GetMaxPcieLinkGeneration", handle),
        nvml.ask("GetCurrPcieLinkWidth", handle),
        nvml.ask("GetMaxPcieLinkWidth", handle),
        len(numbers),
        ends.down,
        _VERSIONS.get(version) if version is not None else None,
        _speed(nvml, handle, numbers),
    )


def _speed(nvml: _Nvml, handle: Any, numbers: Iterable[int]) -> int | None:
    """Bytes per second of one link; the driver counts in MB."""
    for number in numbers:
        for field in ((_SPEED, number), _COMMON_SPEED):
            values = nvml.ask("GetFieldValues", handle, [field])
            if values is not None and values[0].nvmlReturn == 0 and values[0].value.uiVal:
                return int(values[0].value.uiVal) * 1_000_000
    return None


# --- nvidia-smi ----------------------------------------------------------------------


_FIELDS = "gen.current", "gen.max", "width.current", "width.max"
_PCIE = (
    "--query-gpu=" + ",".join(["index", *(f"pcie.link.{field}" for field in _FIELDS)]),
    "--format=csv,noheader,nounits",
)
_STYLE = re.compile(r"\x1b\[[0-9;]*m")  # the heading is underlined, into a pipe as well
_NVLINKS = re.compile(r"NV([0-9]+)")


def _ask_smi(indices: Sequence[int], timeout: float) -> GpuLinks | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    queried = run_smi(program, _PCIE, timeout)
    if queried.code != 0:
        return None  # whoever lists the GPUs says what is wrong
    cards = _parse_cards(queried.text)
    matrix = _parse_matrix(run_smi(program, ("topo", "-m"), timeout).text)
    if cards is None:
        raise queried.unreadable()
    chosen = [index for index in indices if index in cards]
    links = [_smi_link(pair, matrix.get(pair)) for pair in combinations(chosen, 2)]
    return GpuLinks(tuple(cards[index] for index in chosen), tuple(links))


def _parse_cards(text: str) -> dict[int, Card] | None:
    cards: dict[int, Card] = {}
    for line in filter(str.strip, text.splitlines()):
        index, *numbers = (field.strip() for field in line.split(","))
        if not index.isdigit() or len(numbers) != len(_FIELDS):
            return None
        slot = [int(n) if n.isdigit() else None for n in numbers]
        cards[int(index)] = Card(int(index), slot[0], slot[1], slot[2], slot[3])
    return cards


def _parse_matrix(text: str) -> dict[tuple[int, int], str]:
    """The words between each two GPUs: their columns come first."""
    columns: list[int] = []
    words: dict[tuple[int, int], str] = {}
    for line in text.splitlines():
        cells = _STYLE.sub("", line).split()
        numbers = [int(cell[3:]) for cell in cells if re.fullmatch("GPU[0-9]+", cell)]
        if not columns:
            columns = numbers
        elif numbers:
            for column, word in zip(columns, cells[1:]):
                words[numbers[0], column] = word
    return words


def _smi_link(pair: tuple[int, int], word: str | None) -> Link:
    nvlinks = _NVLINKS.fullmatch(word or "")
    if nvlinks:
        return Link(*pair, nvlinks=int(nvlinks[1]))
    return Link(*pair, ancestor=word if word in _ANCESTORS.values() else None)
