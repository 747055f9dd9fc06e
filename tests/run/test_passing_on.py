"""One wish is one signal, whoever of the run a scheduler sends it to."""

from __future__ import annotations

import pytest

from zlaunch.run.passing_on import LAUNCHER, Wishes

USR1, USR2 = 10, 12


@pytest.mark.parametrize(
    ("heard", "passed_on"),
    [
        # (seconds, signal, sender): by a scheduler, to all nodes
        ([(0.0, USR1, LAUNCHER), (0.1, USR1, 1), (0.9, USR1, 2)], [True, False, False]),
        ([(0.0, USR1, 2), (0.1, USR1, LAUNCHER), (0.2, USR1, 0)], [True, False, False]),
        # by a person, twice
        ([(0.0, USR1, LAUNCHER), (0.1, USR1, LAUNCHER)], [True, True]),
        ([(0.0, USR1, 1), (0.4, USR1, 1), (0.5, USR1, 2)], [True, True, False]),
        # to an agent and to its keeper, which passes it on
        ([(0.0, USR1, 1), (0.1, USR1, 1), (0.2, USR1, LAUNCHER)], [True, False, False]),
        # by a scheduler to all, twice
        (
            [(0.0, USR1, 0), (0.0, USR1, 1), (0.5, USR1, 1), (0.5, USR1, 0), (0.9, USR1, 0)],
            [True, False, True, False, True],
        ),
        # later, or another one
        ([(0.0, USR1, LAUNCHER), (1.1, USR1, 1)], [True, True]),
        ([(0.0, USR1, LAUNCHER), (0.1, USR2, 1), (0.2, USR1, 1)], [True, True, False]),
    ],
)
def test_wishes(heard: list[tuple[float, int, int]], passed_on: list[bool]) -> None:
    wishes, found = Wishes(), []
    for now, signum, sender in heard:
        wishes, new = wishes.heard(signum, sender, now)
        found.append(new)
    assert found == passed_on
