"""What is locked for a slot, and what is made of texts that somebody else wrote."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlaunch.spec.device import Device
from zlaunch.spec.leases import Claim, decode_claim, in_words, lock_names

TWO = (
    Device(0, "GPU-5C89aa-01"),
    Device(1, "GPU-17d2bb-02", mig=("MIG-c6d4-01", "MIG-GPU-17d2bb-02/1/0")),
)


@pytest.mark.parametrize(
    ("slot", "names"),
    [
        (0, ("gpu-5c89aa-01",)),
        ("GPU-5c89", ("gpu-5c89aa-01",)),
        (1, ("gpu-17d2bb-02", "mig-c6d4-01", "mig-gpu-17d2bb-02_1_0")),
        ("GPU-17D2BB-02", ("gpu-17d2bb-02", "mig-c6d4-01", "mig-gpu-17d2bb-02_1_0")),
        ("MIG-c6", ("mig-c6d4-01",)),
        ("MIG-GPU-17d2bb-02/1/0", ("mig-gpu-17d2bb-02_1_0",)),
        (7, ()),
        ("GPU-unknown", ("gpu-unknown",)),
        ("MIG-../../etc", ("mig-______etc",)),
    ],
)
def test_names_of_a_slot(slot: int | str, names: tuple[str, ...]) -> None:
    """A whole GPU excludes each of its parts, and no spelling leads out of the directory."""
    assert lock_names(slot, TWO) == names


CLAIM = Claim("20261201-1", "ann", 812, 1.5, ("gpu-1",), 2, "GPU 1 is held")


def test_a_claim_comes_back() -> None:
    assert decode_claim(CLAIM.encode()) == CLAIM
    assert decode_claim(CLAIM.encode() + b"rest of an older one") == CLAIM


@given(st.binary())
def test_nothing_that_is_written_there_does_harm(data: bytes) -> None:
    assert decode_claim(data).run.isprintable()


@pytest.mark.parametrize("bad", [{"since": "nan"}, {"since": 1e300}, {"names": None}, {"pid": "x"}])
def test_fields_of_another_kind(bad: dict[str, object]) -> None:
    claim = decode_claim(json.dumps({**vars(CLAIM), **bad}).encode())
    assert 0 <= claim.since <= 1e10


def test_a_terminal_is_not_written_to() -> None:
    claim = decode_claim(Claim("a\x1b[2Jb", "x\ny", why="w" * 9999).encode())
    assert (claim.run, claim.user) == ("a?[2Jb", "x?y")
    assert len(claim.why) < 1000


def test_devices_with_the_same_reason_are_named_together() -> None:
    held = [(slot, "held by run a") for slot in (0, 1, 2, 5)]
    assert in_words(held) == "GPUs 0-2,5 are held by run a"
    assert in_words([(0, "busy"), *held[1:2], (3, "busy")]) == (
        "GPUs 0,3 are busy; GPU 1 is held by run a"
    )
    assert in_words([("MIG-a", "busy")]) == "MIG-a is busy"
    assert in_words([("GPU-a", "busy"), ("GPU-b", "busy")]) == "GPU-a,GPU-b are busy"
    assert in_words([]) == ""
