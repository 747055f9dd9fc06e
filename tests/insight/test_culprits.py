"""Culprits are told from victims by kind; the clock decides among equals only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import LOST_PEER as LOST
from logs import evidence, in_torch, raised

from zlaunch.insight.diagnosis import Diagnosis, RankEnd, diagnose

OWN = raised("ValueError: row 17 of the data is empty")
RESET = in_torch("ConnectionResetError: [Errno 104] Connection reset by peer")
NCCL = in_torch(
    "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:93, remote process exited or "
    "there was a network error, NCCL version 2.28.9\nncclRemoteError: A call failed possibly due "
    "to a network error or a remote process exiting prematurely."
)
WAITED = in_torch(
    "RuntimeError: [../gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 8000ms for recv "
    "operation to complete"
)


@pytest.mark.parametrize("lost", [LOST, RESET, NCCL])
@pytest.mark.parametrize("at", [0.9, 1.0, 1.1])
def test_who_lost_a_peer_is_no_culprit_though_he_was_first(lost: str, at: float) -> None:
    found = diagnose(
        evidence({0: lost, 1: OWN}, {0: {"code": 1, "at": at}, 1: {"code": 1, "at": 1.0}})
    )
    assert found.culprits == (1,)
    assert [cause.ranks for cause in found.causes] == [(1,)]
    assert set(found.victims) == {0}
    assert found.causes[0].title == "ValueError: row 17 of the data is empty"
    assert [one.ranks for one in found.tracebacks] == [(1,), (0,)]


def test_an_own_traceback_counts_though_it_was_stopped_then() -> None:
    stopped = {"signal": 15, "stopped": True}
    found = diagnose(evidence({0: LOST, 1: OWN}, {0: 1, 1: stopped}))
    assert found.culprits == (1,)
    assert found.victims == {0: "connection closed by peer"}


@pytest.mark.parametrize(
    "words",
    [
        raised("KeyboardInterrupt"),
        in_torch("torch.distributed.elastic.SignalException: Process 4 got signal: 15"),
        raised("RuntimeError: DataLoader worker (pid 12) is killed by signal: Terminated."),
        "step 1",
    ],
)
def test_what_a_stop_makes_ranks_say_is_no_failure(words: str) -> None:
    found = diagnose(evidence({0: words, 1: OWN}, {0: {"signal": 15, "stopped": True}, 1: 1}))
    assert found.culprits == (1,)
    assert found.victims == {0: "stopped by zlaunch"}


HANDLING = "\nDuring handling of the above exception, another exception occurred:\n\n"


@pytest.mark.parametrize("last", [LOST, NCCL, WAITED])
def test_a_barrier_in_a_finally_does_not_hide_the_error(last: str) -> None:
    found = diagnose(evidence({0: OWN + HANDLING + last, 1: LOST}, {0: 1, 1: 1}))
    assert found.culprits == (0,)
    assert found.causes[0].title == "ValueError: row 17 of the data is empty"
    assert found.victims == {1: "connection closed by peer"}


def test_what_a_library_handles_within_itself_is_no_error() -> None:
    within = in_torch("KeyError: 'store'")
    found = diagnose(evidence({0: within + HANDLING + LOST, 1: OWN}, {0: 1, 1: 1}))
    assert found.culprits == (1,)


def test_time_decides_among_equals() -> None:
    words = {0: raised("ValueError: a"), 1: raised("KeyError: 'b'")}
    late = evidence(words, {0: {"code": 1, "at": 5.0}, 1: {"code": 1, "at": 4.0}})
    assert diagnose(late).culprits == (1, 0)
    assert [cause.title for cause in diagnose(late).causes] == ["KeyError: 'b'", "ValueError: a"]


def test_the_kernels_kill_is_a_culprit_before_those_that_lost_it() -> None:
    found = diagnose(
        evidence({0: LOST, 1: "step 7"}, {0: {"code": 1, "at": 1.0}, 1: {"signal": 9, "at": 1.1}})
    )
    assert found.culprits == (1,)
    assert found.causes[0].code == "killed"


def test_a_kill_after_a_stop_is_zlaunchs_own() -> None:
    found = diagnose(evidence({0: OWN, 1: "step"}, {0: 1, 1: {"signal": 9, "stopped": True}}))
    assert found.culprits == (0,)
    assert found.victims == {1: "stopped by zlaunch"}


def test_who_ended_early_is_named() -> None:
    found = diagnose(evidence({0: LOST, 1: "done"}, {0: 1, 1: 0}))
    assert found.causes[0].code == "rank-left-early"
    assert "rank 1 had ended with 0 while rank 0 still needed it" in found.causes[0].title


def test_all_lost_one_another() -> None:
    found = diagnose(evidence({0: LOST, 1: RESET}, {0: 1, 1: 1}))
    assert found.culprits == (0, 1)
    assert {cause.code for cause in found.causes} == {"peer-lost"}


def test_the_missing_ranks_are_those_that_did_not_wait() -> None:
    stopped = {"signal": 15, "stopped": True}
    words = dict.fromkeys((0, 1, 3), WAITED) | {2: "evaluating 1000 samples"}
    found = diagnose(evidence(words, {0: 1, 1: 1, 3: 1, 2: stopped}))
    assert found.culprits == (2,)
    assert "rank 2 did not come while ranks 0-1, 3 waited for 8 s" in found.causes[0].title
    assert found.causes[0].details == ("rank 2 said last: evaluating 1000 samples",)
    assert set(found.victims) == {0, 1, 3}


def test_a_time_out_is_a_victim_where_somebody_failed() -> None:
    found = diagnose(evidence({0: WAITED, 1: OWN}, {0: {"code": 1, "at": 1}, 1: 1}))
    assert found.culprits == (1,)
    assert found.victims == {0: "waited for rank 1"}


def watchdog(rank: int, seq: int, op: str, numel: int, enqueued: int, completed: int) -> str:
    head = f"[rank{rank}]:[E1130 01:52:51.532 ProcessGroupNCCL.cpp:689] [Rank {rank}]"
    return (
        f"{head} Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, "
        f"NumelIn={numel}, NumelOut={numel}, Timeout(ms)=20000) ran for 20094 milliseconds before "
        f"timing out.\n{head} failure detected by watchdog at work sequence id: {seq} PG status: "
        f"last enqueued work: {enqueued}, last completed work: {completed}\n"
    )


def test_one_of_eight_never_came() -> None:
    words = {rank: watchdog(rank, 7, "ALLREDUCE", 4, 7, 6) for rank in range(8)}
    words[5] = (
        "[rank5]:[E1130 01:52:58.1 ProcessGroupNCCL.cpp:1914] [PG ID 0 PG GUID 0(default_pg) "
        "Rank 5] Received a dump signal due to a collective timeout from  rank 0 and we will try "
        "our best to dump the debug info. Last enqueued NCCL work: 6, last completed NCCL work: 6."
    )
    found = diagnose(evidence(words, {rank: {"signal": 6} for rank in range(8)}))
    assert found.culprits == (5,)
    assert "rank 5 never came to collective 7 (ALLREDUCE), in which ranks 0-4, 6-7" in (
        found.causes[0].title
    )


def test_two_different_collectives_of_one_number() -> None:
    words = {0: watchdog(0, 3, "ALLREDUCE", 8, 3, 2), 1: watchdog(1, 3, "BROADCAST", 4, 3, 2)}
    found = diagnose(evidence(words, {0: {"signal": 6}, 1: {"signal": 6}}))
    assert found.causes[0].code == "collective-mismatch"
    assert "rank 0 called ALLREDUCE of 8 elements" in found.causes[0].title
    assert "rank 1 called BROADCAST of 4 elements" in found.causes[0].title


@pytest.mark.parametrize("end", [{"code": 1}, {"code": 143}, {"signal": 11}, {"signal": 6}])
@pytest.mark.parametrize("words", ["saving", "free(): invalid pointer"])
def test_however_a_stopped_rank_ends_it_is_no_culprit(words: str, end: dict[str, int]) -> None:
    found = diagnose(evidence({0: words, 1: OWN}, {0: {**end, "stopped": True}, 1: 1}))
    assert found.culprits == (1,)
    assert found.victims == {0: "stopped by zlaunch"}


def test_a_stop_by_the_user_has_no_cause() -> None:
    stopped = {"signal": 15, "stopped": True}
    found = diagnose(evidence({0: "step", 1: "step"}, {0: stopped, 1: stopped}))
    assert (found.causes, found.culprits) == ((), ())
    assert found.victims == {0: "stopped by zlaunch", 1: "stopped by zlaunch"}


def test_all_well_is_no_failure() -> None:
    assert diagnose(evidence({0: OWN, 1: "done"}, {0: 0, 1: 0})) == Diagnosis()
    assert diagnose(evidence({}, {})) == Diagnosis()


KINDS = st.sampled_from([OWN, LOST, RESET, NCCL, WAITED, "step 1", ""])
ENDS = st.one_of(
    st.integers(0, 3).map(lambda code: {"code": code}),
    st.sampled_from([6, 9, 11, 15]).map(lambda number: {"signal": number}),
    st.just({"signal": 15, "stopped": True}),
)


@given(st.lists(st.tuples(KINDS, ENDS, st.floats(0, 9)), max_size=6))
def test_nobody_is_both_and_every_failure_has_a_side(
    ranks: list[tuple[str, dict[str, object], float]],
) -> None:
    ends = {rank: {**end, "at": at} for rank, (_, end, at) in enumerate(ranks)}
    made = evidence({rank: words for rank, (words, _, _) in enumerate(ranks)}, ends)
    found = diagnose(made)
    failed = {rank for rank, end in made.ends.items() if not end.well}
    assert not set(found.culprits) & set(found.victims)
    assert {rank for cause in found.causes for rank in cause.ranks} == set(found.culprits)
    assert failed <= {*found.culprits, *found.victims}
    if any(words == OWN and not made.ends[r].well for r, (words, _, _) in enumerate(ranks)):
        assert not {found.causes[0].code} & {"peer-lost", "nccl-peer-lost", "collective-timeout"}


def test_an_end_that_is_well() -> None:
    assert RankEnd(0, code=0).well
    assert not RankEnd(0, code=0, signal=9).well
    assert not RankEnd(0).well
