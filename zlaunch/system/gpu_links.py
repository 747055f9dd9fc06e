"""How the GPUs of this machine reach each other, and their slots, as NVML tells it.

Travels to the agent, so it stays within Python 3.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

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


@dataclass(frozen=True)
class Card:
    """One GPU's ways out; None for what the driver does not tell.

    An idle card lowers its PCIe generation, but not its width. `nvlinks` are those that are
    up, `nvlinks_down` those that are there and are not; the speed is of one link, each way.
    """

    index: int
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    nvlinks: int = 0
    nvlinks_down: int = 0
    nvlink_version: str | None = None
    nvlink_bytes_per_second: int | None = None


@dataclass(frozen=True)
class Link:
    """The way between two GPUs: `nvlinks` lead from one to the other, straight or by a switch.

    `ancestor` is where their PCIe ways meet: PIX one bridge, PXB several, PHB the CPU's host
    bridge, NODE one NUMA node, SYS across sockets; None where the driver does not tell.
    """

    first: int
    second: int
    nvlinks: int = 0
    switched: bool = False
    ancestor: str | None = None

    @property
    def kind(self) -> str:
        """As `nvidia-smi topo -m` shows it: `NV18`, `PHB`; `?` where nothing is known."""
        return f"NV{self.nvlinks}" if self.nvlinks else self.ancestor or "?"


@dataclass(frozen=True)
class GpuLinks:
    """All cards that were asked about, and the way between each two."""

    cards: tuple[Card, ...]
    links: tuple[Link, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        links = [{**asdict(link), "kind": link.kind} for link in self.links]
        return {"cards": [asdict(card) for card in self.cards], "links": links}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GpuLinks:
        """Read what `to_json` gave."""
        links = [{name: link[name] for name in link if name != "kind"} for link in data["links"]]
        return cls(
            tuple(Card(**card) for card in data["cards"]), tuple(Link(**link) for link in links)
        )

    def findings(self) -> tuple[str, ...]:
        """What is wrong with the links, a sentence each; none of it depends on the load."""
        most = max((card.nvlinks for card in self.cards), default=0)
        found = []
        for card in self.cards:
            width, widest = card.pcie_width, card.pcie_width_max
            if width and widest and width < widest:
                found.append(f"GPU {card.index} has {width} of its {widest} PCIe lanes")
            if card.nvlinks < most:
                found.append(
                    f"GPU {card.index} has {card.nvlinks} NVLinks up, another one here {most}"
                )
        return tuple(found)


def gpu_links(indices: Sequence[int], *, timeout: float = 10.0) -> GpuLinks | None:
    """Ask for the links of the GPUs with these indices, as `discover` numbers them.

    None where NVML cannot be asked. Raises BackendError where it fails, or does not answer
    within `timeout` seconds.
    """
    failed = "the links of the GPUs could not be read"
    return ask_nvml(lambda nvml: _read(_Nvml(nvml), indices), failed, timeout=timeout)


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


@dataclass(frozen=True)
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
