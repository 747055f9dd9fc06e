"""What a user may hand through to sbatch, and in which ways zlaunch's own could be given there."""

from __future__ import annotations

import pytest

from zlaunch.errors import InputError
from zlaunch.spec.batch_options import check_option


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("--exclusive", "--exclusive"),
        (" --mem=64G ", "--mem=64G"),
        ("-w n1", "-w n1"),
        ("--mem=1G --gres gpu:1 -Hp main", "--mem=1G --gres gpu:1 -Hp main"),
        ("--comment='a b'", '"--comment=a b"'),
        ("--comment='-o x'", '"--comment=-o x"'),
        ("--no-requeue", "--no-requeue"),
        ("--time-min=5", "--time-min=5"),
        ("--nodelist=n1", "--nodelist=n1"),
        ("--wait-all-nodes=1", "--wait-all-nodes=1"),
        ("-sexclusive", "-sexclusive"),
    ],
)
def test_what_is_handed_through(text: str, line: str) -> None:
    assert check_option(text) == line


@pytest.mark.parametrize("text", ["mem=64G", "", "--mem=1\n#SBATCH -N 9"])
def test_what_is_no_option(text: str) -> None:
    with pytest.raises(InputError, match="no option of sbatch"):
        check_option(text)


@pytest.mark.parametrize(
    "text",
    [
        *("--array=1-3", "-a1-3", "-N 4", "--output x", "-o/tmp/x", "--signal=B:USR1@9"),
        *("--arr=1-3", "--outp=/tmp/x", "--mem=1G --output=/tmp/x", "--mem 1G -o x"),
        *("-Ho/tmp/x", "-HOa0-3", "--mem=1G '--arr'=3", "--ti=5", "-t5", "-M other", "--version"),
    ],
)
def test_what_is_zlaunch_s_to_give(text: str) -> None:
    with pytest.raises(InputError, match="is zlaunch's to give"):
        check_option(text)


def test_what_contradicts() -> None:
    with pytest.raises(InputError, match="contradict"):
        check_option("--mem=1G --no-req", requeue=True)
    with pytest.raises(InputError, match="quotation"):
        check_option("--comment='a")
