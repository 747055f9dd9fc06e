"""Secrets in texts: known ones, and those that have a form."""

from __future__ import annotations

import random

import pytest

from zlaunch.spec.redact import secret_values
from zlaunch.spec.redact_text import Redactor

HEX = "0123456789abcdef" * 2 + "01234567"
FORMS = {
    "using hf_abcdefghijklmnopqrstuvwx now": "using *** now",
    "ghp_0123456789abcdefghijklmnopqrstuvwxyz": "***",
    "github_pat_11AAAAAAA0123456789_abcdefghij,": "***,",
    "key sk-proj-abcdefghijklmnop1234": "key ***",
    "id AKIAIOSFODNN7EXAMPLE.": "id ***.",
    f"wandb: api key {HEX}": "wandb: api key ***",
    f"WANDB_API_KEY={HEX}": "WANDB_API_KEY=***",
    "Authorization: Bearer abcdef.ghijkl-mn": "Authorization: Bearer ***",
    "{'authorization': 'Basic dXNlcjpwYXNz'}": "{'authorization': 'Basic ***'}",
    "git clone https://bob:secret1@example.org/x": "git clone https://bob:***@example.org/x",
    '"api_key": "abcdefgh1234",': '"api_key": "***",',
    "export MY_TOKEN='tok-12345678'": "export MY_TOKEN='***'",
    "password=correct-horse": "password=***",
    "\x1b[31mhf_abcdefghijklmnopqrstuvwx\x1b[0m": "\x1b[31m***\x1b[0m",
    "https://abcdefghijklmnopqrstuvwx@example.org/x": "https://***@example.org/x",
    "s3://b/k?X-Amz-Signature=0123456789&X-Amz-Date=1": "s3://b/k?X-Amz-Signature=***&X-Amz-Date=1",
    'env["MY_API_KEY"] = "abcdefgh1234"': 'env["MY_API_KEY"] = "***"',
    "secret_key: abcdefgh1234": "secret_key: ***",
    "x-api-key: abcdefgh1234": "x-api-key: ***",
    "train.py --hf-token abcdefgh1234 --lr 1": "train.py --hf-token *** --lr 1",
    "['--api-key', 'abcdefgh1234']": "['--api-key', '***']",
    "pwd=hunter2 next": "pwd=*** next",
    "Server=db;Uid=sa;Pwd=hunter22;": "Server=db;Uid=sa;Pwd=***;",
    "DB_PWD: 'hunter22'": "DB_PWD: '***'",
    "password=secret7": "password=***",
    "db_pass = hunter2": "db_pass = ***",
    "--pwd hunter22 --passwd=hunter22": "--pwd *** --passwd=***",
    "token=abc123def456": "token=***",
    "GET /lab?token=0123456789abcdef0123456789abcdef&x=1": "GET /lab?token=***&x=1",
    "{'token': 'abc123def456'}": "{'token': '***'}",
    "session_token: a1b2c3d4e5f6a7b8c9": "session_token: ***",
    "Cookie: sid=abcdefgh; theme=dark": "Cookie: ***",
    "Set-Cookie: sid=abcdefgh; Path=/": "Set-Cookie: ***",
    "{'cookie': 'sid=abcdefgh', 'a': 1}": "{'cookie': '***', 'a': 1}",
    "cookies={'sid': 'abcdefgh'}": "cookies=***}",
    "<Cookie sid=abcdefgh for example.org/>": "<Cookie sid=*** for example.org/>",
    "PHPSESSID=abcdefgh1234": "PHPSESSID=***",
    "curl -s -u ann:hunter2 https://example.org": "curl -s -u ann:*** https://example.org",
    "sshpass -p hunter2 ssh a": "sshpass -p *** ssh a",
    "machine a login ann password hunter2": "machine a login ann password ***",
    '"auths": {"a": {"auth": "YW5uOmh1bnRlcjI="}}': '"auths": {"a": {"auth": "***"}}',
}
INNOCENT = [
    "step 10 loss 4.3 lr 1e-4",
    "eos_token: <|endoftext|>, pad_token='<pad>'",
    f"commit {HEX}",
    "tokenizer=meta-llama/Llama-2-7b max_tokens=4096",
    "see https://example.org:8080/a@b",
    "task-0123456789abcdefghij and risk-free",
    "key=value",
    "--max-tokens 12345678 --tokenizer meta-llama/Llama --token-type abcdefghij",
    "disk-usage-of-the-node: 3",
    "PWD=/home/ann/work OLDPWD=/home/ann pwd: ~/x pwd=$(pwd) pwd=./here",
    "token=12 token: 7.25 token: hello, token='<|im_start|>' tokens=123abc45 token: transformer",
    "image_token: <image>, eos_token='<|reserved_special_token_250|>', next_token=hello",
    "tokens/s 9375 tokens_per_second=9375.123 num_tokens: 12345678 max_token=1024",
    "first pass: epoch, forward pass 12345678, bypass=1 compass: north-west pass=1",
    "docker run -u 1000:1000 x; python -u train.py; pytest -u a.py::test_it",
    "cookies are off; the cookie jar: empty",
    "http_cookie_jar=off author: ann123456 authority=x",
]


def redacted(text: str | bytes, values: list[str] | None = None, piece: int = 1 << 20) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    redactor = Redactor(values or [])
    pieces = [redactor.feed(data[at : at + piece]) for at in range(0, len(data), piece)]
    return b"".join(pieces) + redactor.finish()


@pytest.mark.parametrize("text", FORMS)
@pytest.mark.parametrize("piece", [1, 13, 1 << 20])
def test_forms(text: str, piece: int) -> None:
    assert redacted(f"a\n{text}\nb", piece=piece).decode() == f"a\n{FORMS[text]}\nb"


@pytest.mark.parametrize("text", INNOCENT)
def test_what_is_none(text: str) -> None:
    redactor = Redactor([])
    assert redactor.feed(text.encode() + b"\n") == text.encode() + b"\n"
    assert redactor.hidden == 0


def test_known_values_wherever_they_stand_the_longest_first() -> None:
    values = secret_values(
        {"A_KEY": "hunter22", "B_TOKEN": "hunter22-longer", "C_SECRET": "1", "PATH": "/usr/bin"}
    )
    assert sorted(values) == ["1", "hunter22", "hunter22-longer"]
    text = "x=hunter22;y=hunter22-longer 1 /usr/bin"
    assert redacted(text, values) == b"x=***;y=*** 1 /usr/bin"
    assert secret_values({"X": "value"}, ["X"]) == ["value"]


def test_the_count_is_of_values() -> None:
    redactor = Redactor(["hunter22"])
    redactor.feed(b"hunter22 hunter22\npassword=hunter22\n")
    redactor.finish()
    assert redactor.hidden == 3


def test_bytes_that_are_no_text_stay() -> None:
    data = bytes(range(256)).replace(b"\n", b"") * 3
    assert redacted(data) == data


def test_a_private_key_across_pieces_and_one_that_is_cut_off() -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\nBBBB\n-----END OPENSSH PRIVATE KEY-----\n"
    for piece in (5, 1000):
        shown = redacted(f"before\n{key}after\n", piece=piece).decode()
        assert "AAAA" not in shown
        assert "BBBB" not in shown
        assert shown.startswith("before\n-----BEGIN OPENSSH PRIVATE KEY-----")
        assert shown.endswith("-----END OPENSSH PRIVATE KEY-----\nafter\n")
    assert b"AAAA" not in redacted("-----BEGIN RSA PRIVATE KEY-----\nAAAA\n")


def test_a_line_without_an_end_is_held_in_bounds_and_no_secret_in_it_is_cut() -> None:
    dice = random.Random(1)
    redactor, secret, shown, held = Redactor(["hunter22"]), b"hunter22", b"", 0
    for _ in range(60):
        data = b"x" * dice.randrange(60_000, 70_000) + secret
        for piece in (data[:-3], data[-3:]):
            shown += redactor.feed(piece)
            held = max(held, len(redactor._tail))
    shown += redactor.finish()
    assert held < 3 << 20
    assert secret not in shown
    assert redactor.hidden == 60
