"""Two configs beside each other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlaunch.dsconfig.difference import ABSENT, Difference, differences

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=8,
)
configs = st.dictionaries(st.text(max_size=2), values, max_size=3)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": True}, [("a", 1, True)]),
        ({"a": None}, {}, [("a", None, ABSENT)]),
        ({}, {"a": {"b": 1, "c": {}}}, [("a.b", ABSENT, 1), ("a.c", ABSENT, {})]),
        ({"a": {"b": 1}}, {"a": {"b": 2, "c": [1]}}, [("a.b", 1, 2), ("a.c", ABSENT, [1])]),
        ({"a": {"b": 1}}, {"a": 3}, [("a", {"b": 1}, 3)]),
        ({"a": [1, 2]}, {"a": [1, 2.0]}, []),
        ({"a": {}}, {"a": {}}, []),
        ({"b": 1, "a": 2}, {"a": 3, "b": 4}, [("b", 1, 4), ("a", 2, 3)]),
    ],
)
def test_told(before: dict[str, Any], after: dict[str, Any], told: list[Any]) -> None:
    assert differences(before, after) == tuple(Difference(*one) for one in told)


@given(configs)
def test_a_config_does_not_differ_from_itself(config: dict[str, Any]) -> None:
    assert differences(config, config) == ()


@given(configs, configs)
def test_the_other_way_round(before: dict[str, Any], after: dict[str, Any]) -> None:
    one, other = differences(before, after), differences(after, before)
    assert {(d.path, repr(d.before), repr(d.after)) for d in one} == {
        (d.path, repr(d.after), repr(d.before)) for d in other
    }
