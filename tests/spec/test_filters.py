"""Filters and limits on the hosts of a hostfile, as DeepSpeed 0.19.8 means them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlaunch.errors import SelectionError
from zlaunch.spec.filters import filter_hosts, limit_hosts, select_hosts
from zlaunch.spec.hostfile import Host, parse_hostfile

POOL = parse_hostfile("w0 slots=4\nw1 slots=4\n", "hosts")
MIXED = parse_hostfile("# lab\nbob@w0 slots=2\nfe80::1 slots=4\n", "hosts")
ALL = [0, 1, 2, 3]

Shown = dict[str, list[object]]


def shown(hosts: tuple[Host, ...]) -> Shown:
    return {host.name: list(host.slots) for host in hosts}


INCLUDED: dict[str, Shown] = {
    "w0": {"w0": ALL},
    "w0@w1:0,2": {"w0": ALL, "w1": [0, 2]},
    "w1@w0": {"w0": ALL, "w1": ALL},
    "w1:2,0": {"w1": [0, 2]},
    "w1:1,1@w1:0": {"w1": [0, 1]},
    "w1:0@w1": {"w1": ALL},
    "w1@w1:0": {"w1": ALL},
    "w0: 0 , 2": {"w0": [0, 2]},
    "w0:0-2": {"w0": [0, 1, 2]},
    "w0:0-1,3@w1": {"w0": [0, 1, 3], "w1": ALL},
    " w0 @ w1:01": {"w0": ALL, "w1": [1]},
}


@pytest.mark.parametrize("text", INCLUDED)
def test_include(text: str) -> None:
    assert shown(filter_hosts(POOL, include=text, exclude=None)) == INCLUDED[text]
    assert list(shown(filter_hosts(POOL, include=text, exclude=None))) == list(INCLUDED[text])


EXCLUDED: dict[str, Shown] = {
    "w0": {"w1": ALL},
    "w1:0": {"w0": ALL, "w1": [1, 2, 3]},
    "w1:0@w1": {"w0": ALL},
    "w1:0-3": {"w0": ALL},
    "w0:3@w1:0,1": {"w0": [0, 1, 2], "w1": [2, 3]},
}


@pytest.mark.parametrize("text", EXCLUDED)
def test_exclude(text: str) -> None:
    assert shown(filter_hosts(POOL, include=None, exclude=text)) == EXCLUDED[text]


def test_without_a_filter_all_hosts_stay() -> None:
    assert filter_hosts(POOL, include=None, exclude=None) == POOL


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("w0:1", {"w0": [1]}),
        ("[fe80::1]:0,1", {"fe80::1": [0, 1]}),
        ("[fe80::1]", {"fe80::1": ALL}),
        ("fe80::1", {"fe80::1": ALL}),
        ("[fe80::1]:2-3@w0", {"w0": [0, 1], "fe80::1": [2, 3]}),
    ],
)
def test_user_hosts_and_ipv6(text: str, expected: Shown) -> None:
    assert shown(filter_hosts(MIXED, include=text, exclude=None)) == expected


REFUSED = {
    "w1:7": "slot 7 of host 'w1'",
    "w0:-1": "'-1' where a slot is expected",
    "x": "'x', which is not in",
    "w": "did you mean w",
    "w0:": "'' where a slot",
    "w0:a": "'a' where a slot",
    "w0:0,,1": "'' where a slot",
    "w0:2-1": "runs backwards",
    "w0:0-99999": "more than 1024",
    "w0:" + "9" * 5000: "where a slot is expected",
    "w0:٣": "where a slot is expected",
    "w0:GPU-1": "slot GPU-1 of host 'w0'",
    "w0:0:1": "expected HOST or HOST:SLOT",
    "fe80::1:0,1": "in brackets",
    "[fe80::1": "expected HOST or HOST:SLOT",
    "[w0]0": "expected HOST or HOST:SLOT",
    "w0@": "no host name",
    "@w0": "no host name",
    "": "no host name",
    ":0": "no host name",
    "w*": "not in the hostfile",
    "w[0-1]": "not in the hostfile",
    "bob@w0:1": "'bob', which is not in",
}


@pytest.mark.parametrize("text", REFUSED)
@pytest.mark.parametrize("option", ["include", "exclude"])
def test_refuses(text: str, option: str) -> None:
    arguments = {"include": None, "exclude": None, option: text}
    with pytest.raises(SelectionError) as caught:
        filter_hosts(POOL, **arguments)
    assert f"--{option}" in str(caught.value)
    assert REFUSED[text] in str(caught.value)


def test_at_sign_of_a_user_is_explained() -> None:
    with pytest.raises(SelectionError, match="write w0 without bob@"):
        filter_hosts(MIXED, include="bob@w0:1", exclude=None)


def test_missing_slot_names_host_slot_range_and_line() -> None:
    with pytest.raises(SelectionError) as caught:
        filter_hosts(MIXED, include="w0:2,3", exclude=None, source="lab/hosts")
    assert caught.value.where == "lab/hosts:2"
    assert "asks for slot 2 of host 'w0', which has 2 (slots 0,1)" in caught.value.message
    assert "raise it" in str(caught.value.hint)


@pytest.mark.parametrize("text", ["w0@w1", "w1@w0:0-3"])
def test_selecting_nothing_is_an_error(text: str) -> None:
    with pytest.raises(SelectionError, match="leaves no slot"):
        filter_hosts(POOL, include=None, exclude=text)


def test_no_hosts_is_an_error() -> None:
    with pytest.raises(SelectionError, match="no host"):
        filter_hosts((), include=None, exclude=None)


def test_limits() -> None:
    assert shown(limit_hosts(POOL, num_nodes=1, num_gpus=None)) == {"w0": ALL}
    assert shown(limit_hosts(POOL, num_nodes=None, num_gpus=2)) == {"w0": [0, 1], "w1": [0, 1]}
    assert shown(limit_hosts(POOL, num_nodes=2, num_gpus=4)) == {"w0": ALL, "w1": ALL}
    assert limit_hosts(POOL, num_nodes=None, num_gpus=None) == POOL


@pytest.mark.parametrize("number", [0, -1])
@pytest.mark.parametrize("option", ["num_nodes", "num_gpus"])
def test_limits_are_at_least_one(option: str, number: int) -> None:
    with pytest.raises(SelectionError, match=f"--{option.replace('_', '-')} {number}"):
        limit_hosts(POOL, **{"num_nodes": None, "num_gpus": None, option: number})


def test_more_hosts_than_there_are() -> None:
    with pytest.raises(SelectionError, match=r"--num-nodes 3 .* the 2 hosts of lab/hosts"):
        limit_hosts(POOL, num_nodes=3, num_gpus=None, source="lab/hosts")


def test_more_slots_than_a_host_has() -> None:
    with pytest.raises(SelectionError, match=r"--num-gpus 3 .* the 2 slots of host 'w0'") as caught:
        limit_hosts(MIXED, num_nodes=1, num_gpus=3, source="lab/hosts")
    assert caught.value.where == "lab/hosts:2"


@pytest.mark.parametrize("filters", [{"include": "w0"}, {"exclude": "w0"}])
@pytest.mark.parametrize("limits", [{"num_nodes": 1}, {"num_gpus": 1}])
def test_filter_and_limit_exclude_each_other(filters: dict, limits: dict) -> None:
    with pytest.raises(SelectionError, match="cannot be given together") as caught:
        select_hosts(POOL, **filters, **limits)
    names = [name.replace("_", "-") for name in (*filters, *limits)]
    assert all(f"--{name}" in str(caught.value) for name in names)


def test_include_and_exclude_exclude_each_other() -> None:
    with pytest.raises(SelectionError, match="--include and --exclude"):
        select_hosts(POOL, include="w0", exclude="w1")


def test_select_hosts_applies_either() -> None:
    assert shown(select_hosts(POOL, include="w1:0")) == {"w1": [0]}
    assert shown(select_hosts(POOL, num_nodes=1, num_gpus=1)) == {"w0": [0]}


SLOT_LISTS = st.lists(st.sampled_from(["0", "1", "2-3", "0-3", "3"]), min_size=1).map(",".join)
NODES = st.sampled_from(["w0", "w1"]) | st.tuples(st.sampled_from(["w0", "w1"]), SLOT_LISTS).map(
    ":".join
)
FILTERS = st.lists(NODES, min_size=1, max_size=4).map("@".join)


def in_order(part: list[object], whole: list[object]) -> bool:
    rest = iter(whole)
    return all(item in rest for item in part)


@given(FILTERS)
def test_include_and_exclude_share_the_pool_out_in_order(text: str) -> None:
    included = shown(filter_hosts(POOL, include=text, exclude=None))
    try:
        excluded = shown(filter_hosts(POOL, include=None, exclude=text))
    except SelectionError:
        excluded = {}
    for part in (included, excluded):
        assert in_order(list(part), ["w0", "w1"])
        assert all(slots and in_order(slots, ALL) for slots in part.values())
    for host in ("w0", "w1"):
        assert sorted([*included.get(host, []), *excluded.get(host, [])]) == ALL


PIECES = st.sampled_from(["w0", "w1", "[", "]", "@", ":", ",", "-", "0", "9", " ", "GPU-", "::"])


@given(
    st.text() | st.lists(PIECES, max_size=12).map("".join),
    st.sampled_from(["include", "exclude"]),
)
def test_any_text_is_a_filter_or_refused(text: str, option: str) -> None:
    try:
        chosen = filter_hosts(POOL, **{"include": None, "exclude": None, option: text})
    except SelectionError:
        return
    assert all(set(host.slots) <= set(ALL) for host in chosen)
