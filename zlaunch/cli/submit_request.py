"""A request on its way from `submit` to the launcher in the job: as JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from zlaunch.cli.request import ManyHosts, Request
from zlaunch.spec.allocation import Allocation

_NOT_SENT = frozenset({"many", "join", "allocation"})


def to_json(request: Request) -> dict[str, Any]:
    """Return it as JSON data."""
    assert request.many is not None
    return {**_values(request), "many": _values(request.many)}


def from_json(data: Mapping[str, Any], allocation: Allocation) -> Request:
    """Return what `to_json` gave, within a grant; what another version added is left aside.

    Raises TypeError where it is no request.
    """
    many = ManyHosts(**_known(ManyHosts, data.get("many", {})))
    request = Request(**_known(Request, data))
    allow = frozenset(request.allow)
    return replace(request, allow=allow, many=replace(many, allocation=allocation))


def _values(data: Request | ManyHosts) -> dict[str, Any]:
    values = {one.name: getattr(data, one.name) for one in fields(data)}
    return {
        name: sorted(value) if isinstance(value, frozenset) else value
        for name, value in values.items()
        if name not in _NOT_SENT
    }


def _known(kind: type[Request | ManyHosts], data: Mapping[str, Any]) -> dict[str, Any]:
    names = {one.name for one in fields(kind)} - _NOT_SENT
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in data.items()
        if name in names
    }
