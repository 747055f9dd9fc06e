"""Which variables go to the other hosts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlaunch.errors import InputError
from zlaunch.spec.propagation import PREFIXES, chosen_environment, parse_env_option


def sent(env: dict[str, str]) -> dict[str, str]:
    return chosen_environment(env, names=(), settings=())


@pytest.mark.parametrize(
    "name",
    [
        *("NCCL_DEBUG", "PYTHONPATH", "MLFLOW_TRACKING_URI", "MV2_SMP_USE_CMA", "UCX_TLS"),
        *("HF_HOME", "TRANSFORMERS_CACHE", "TORCH_HOME", "TORCHELASTIC_ERROR_FILE"),
        *("CUDA_HOME", "CUDA_DEVICE_ORDER", "OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME"),
        *("WANDB_API_KEY", "DS_BUILD_OPS", "LD_LIBRARY_PATH", "MLFLOW", "MV2"),
    ],
)
def test_is_sent_by_default(name: str) -> None:
    assert sent({name: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    "name",
    [
        *("CUDA_VISIBLE_DEVICES", "PATH", "HOME", "USER", "LD_PRELOAD", "LD_LIBRARY"),
        *("SSH_CONNECTION", "SSH_AUTH_SOCK", "BASH_FUNC_x%%", "BASH_FUNC_module()", "PWD"),
        *("OLDPWD", "TERM", "SHLVL", "_", "VSCODE_IPC_HOOK", "DISPLAY", "SLURM_JOB_ID"),
        *("nccl_debug", "XNCCL_", "NCCL", "HTTP_PROXY"),
    ],
)
def test_is_not_sent_by_default(name: str) -> None:
    assert sent({name: "x"}) == {}


def test_the_prefixes_are_those_that_the_documentation_lists() -> None:
    listed = "NCCL_ PYTHON MLFLOW MV2 UCX_ HF_ TRANSFORMERS_ TORCH_ TORCHELASTIC_ CUDA_ OMP_"
    assert " ".join(PREFIXES) == f"{listed} GLOO_ WANDB_ DS_"


def test_what_is_named_is_sent() -> None:
    env = {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "1", "HTTP_PROXY": "", "HOME": "/h"}
    names = ["PATH", "CUDA_VISIBLE_DEVICES", "HTTP_PROXY"]
    chosen = chosen_environment(env, names=names, settings=())
    assert chosen == {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "1", "HTTP_PROXY": ""}


def test_a_value_that_is_given_wins_over_all_and_the_last_over_the_first() -> None:
    env = {"NCCL_DEBUG": "WARN", "PATH": "/bin"}
    settings = [("NCCL_DEBUG", "INFO"), ("PATH", "/x"), ("TERM", "dumb"), ("NCCL_DEBUG", "")]
    chosen = chosen_environment(env, names=["PATH"], settings=settings)
    assert chosen == {"NCCL_DEBUG": "", "PATH": "/x", "TERM": "dumb"}
    assert env == {"NCCL_DEBUG": "WARN", "PATH": "/bin"}


def test_an_unset_name_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(InputError, match=r"--env HFHOME: .*not set here") as caught:
        chosen_environment({"HF_HOME": "/h"}, names=["HFHOME"], settings=())
    assert caught.value.hint == "did you mean HF_HOME? Else set it, or write --env HFHOME=VALUE"


@pytest.mark.parametrize("name", ["TERM", "PWD", "SSH_AUTH_SOCK", "BASH_FUNC_x%%", "_"])
def test_what_is_about_this_session_is_not_sent_when_named(name: str) -> None:
    with pytest.raises(InputError, match="this machine and session") as caught:
        chosen_environment({name: "x"}, names=[name], settings=())
    assert f"--env {name}=VALUE" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("NAME", ("NAME", None)),
        ("NAME=", ("NAME", "")),
        ("_n1=a=b", ("_n1", "a=b")),
        ('J={"a": "$HOME 64(x2)\n"}', ("J", '{"a": "$HOME 64(x2)\n"}')),
        ("X= 'a' ", ("X", " 'a' ")),
    ],
)
def test_reads_an_option(text: str, option: tuple[str, str | None]) -> None:
    assert parse_env_option(text) == option


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "found nothing before the ="),
        ("=1", "found nothing before the ="),
        ("A-B=1", "found 'A-B'"),
        ("A B", "found 'A B'"),
        ("1A", "found '1A'"),
        ("BASH_FUNC_x%%=() { :; }", "found 'BASH_FUNC_x%%'"),
        ("X=a\0", "--env X: the value holds a NUL"),
    ],
)
def test_refuses_an_option(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_env_option(text)
    assert words in caught.value.message
    assert caught.value.hint


AWKWARD = ("64(x2)", "a b", "$HOME", "`id`", ";", "'", '"', "*", "a\\", "", "~/x", "é\udcff\n")


@given(st.sampled_from(AWKWARD) | st.text(st.characters(exclude_characters="\0")))
def test_any_value_comes_through_as_it_is(value: str) -> None:
    option = parse_env_option(f"X={value}")
    assert option == ("X", value)
    chosen = chosen_environment({"NCCL_X": value, "Y": value}, names=["Y"], settings=[("X", value)])
    assert chosen == {"NCCL_X": value, "Y": value, "X": value}
