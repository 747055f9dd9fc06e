"""How the GPUs of one machine reach each other, and how wide their slots are.

Travels to the agent, so it stays within Python 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from zlaunch.frozen import frozen


@frozen
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


@frozen
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


@frozen
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

    def nvlink_bytes_per_second(self) -> int | None:
        """What NVLink carries each way between the two that it joins least; None if any has none.

        None too where the driver does not tell the speed.
        """
        speeds = {card.index: card.nvlink_bytes_per_second for card in self.cards}
        carried = [link.nvlinks * (speeds.get(link.first) or 0) for link in self.links]
        return min(carried, default=0) or None

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
