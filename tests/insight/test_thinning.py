"""Long series in little memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zlaunch.insight.thinning import Point, Thinned


def series(values: list[float], limit: int) -> tuple[Thinned, list[Point]]:
    points = [Point(at, None, float(at), value) for at, value in enumerate(values)]
    thinned = Thinned(limit)
    for point in points:
        thinned.add(point)
    return thinned, points


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300), st.integers(1, 9))
def test_few_points_stay_and_with_them_the_ends_and_the_extremes(
    values: list[float], limit: int
) -> None:
    thinned, points = series(values, limit)
    kept = list(thinned)

    assert thinned.count == len(values)
    assert len(kept) <= 2 * (limit + limit % 2) + 4
    assert kept == [point for point in points if point in kept]  # each once, in order
    assert kept[0] == points[0] and kept[-1] == points[-1]
    assert min(p.value for p in kept) == min(values)
    assert max(p.value for p in kept) == max(values)


def test_what_fits_is_kept_whole() -> None:
    thinned, points = series([5.0, 1.0, 1.0, 9.0, 2.0], 10)

    assert list(thinned) == points


def test_each_spike_of_a_long_series_stays() -> None:
    values = [0.0] * 100_000
    spikes = range(5_000, 100_000, 10_000)
    for at in spikes:
        values[at] = 1.0 + at
    thinned, _ = series(values, 50)

    assert {point.at for point in thinned if point.value > 0} == set(spikes)


def test_of_nothing_there_is_nothing() -> None:
    thinned, _ = series([], 4)

    assert list(thinned) == []
    assert thinned.lowest is None and thinned.highest is None
