"""Files of environment variables: what is read, and where the refusal points."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlaunch.errors import InputError
from zlaunch.spec.envfile import is_variable, parse_deepspeed_env, parse_env_file

READ = {
    "nothing": ("", {}),
    "blank lines and comments": ("\n  \n# c\n \t# X=1\n\n", {}),
    "plain": ("X=1\nY=2", {"X": "1", "Y": "2"}),
    "export": ("export X=1\n export\tY=2", {"X": "1", "Y": "2"}),
    "a name that begins like export": ("exported=1", {"exported": "1"}),
    "export as a name": ("export=1", {"export": "1"}),
    "blanks around": ("  X = a b \t\n", {"X": "a b"}),
    "more than one =": ("A=b=c", {"A": "b=c"}),
    "empty": ("X=\nY= \nZ=''\nW=\"\"", {"X": "", "Y": "", "Z": "", "W": ""}),
    "comments": (
        "X=1 # c\nY=a#b\nZ=#c\nW= # c\nV=a\t#c # d",
        {"X": "1", "Y": "a#b", "Z": "#c", "W": "", "V": "a"},
    ),
    "comment behind quotes": ("X=\"a # b\" # c\nY='a'#c", {"X": "a # b", "Y": "a"}),
    "escapes": (r'X="a\nb\t\"c\"\\n\r"', {"X": 'a\nb\t"c"\\n\r'}),
    "a backslash that escapes nothing": (r'X="C:\data\\"', {"X": "C:\\data\\"}),
    "as for a shell": (r'X="\$HOME \`x\`"', {"X": "$HOME `x`"}),
    "no expansion": ('X=$HOME\nY="${X}"\nZ=`id`', {"X": "$HOME", "Y": "${X}", "Z": "`id`"}),
    "raw": (r"X='a\n\"$b\\'", {"X": r"a\n\"$b\\"}),
    "no escapes without quotes": (r"X=a\nb\\", {"X": r"a\nb\\"}),
    "quotes inside": ('X=it\'s\nY=a"b"', {"X": "it's", "Y": 'a"b"'}),
    "several lines": ('X="a\n # b\n\nY=c" # d\nZ=1', {"X": "a\n # b\n\nY=c", "Z": "1"}),
    "several lines, raw": ("X='a\n  b'\nZ=1", {"X": "a\n  b", "Z": "1"}),
    "CRLF": ('X=1\r\nY="a\r\nb"\r\n\r\n# c\r\nZ=\r\n', {"X": "1", "Y": "a\nb", "Z": ""}),
    "old Mac newline": ("X=1\rY=2\r", {"X": "1", "Y": "2"}),
    "byte order mark": ("\ufeffX=1", {"X": "1"}),
    "other separators are no ends of line": ("X=a\u2028b\x0cc", {"X": "a\u2028b\x0cc"}),
    "another script": ("X=größe ☃", {"X": "größe ☃"}),
    "Slurm": ("S=64(x2)\nJ={\"a\": [1, '2']}", {"S": "64(x2)", "J": "{\"a\": [1, '2']}"}),
    "twice": ("X=1\nX=2", {"X": "2"}),
}


@pytest.mark.parametrize("case", READ)
def test_reads(case: str) -> None:
    text, variables = READ[case]
    assert dict(parse_env_file(text, "my.env")) == variables


def test_keeps_order_and_repetition() -> None:
    assert parse_env_file("B=1\nA=2\nB=3", "e") == (("B", "1"), ("A", "2"), ("B", "3"))


REFUSED = {
    "no =": ("X=1\n  hello", "2:3", "no ="),
    "export without =": ("export X", "1:1", "no ="),
    "no name": (" =1", "1:2", "no name"),
    "no name behind export": ("export =1", "1:8", "no name"),
    "bad name": ("X=1\nA-B=2", "2:1", "'A-B' cannot name"),
    "digit first": ("1A=2", "1:1", "'1A' cannot name"),
    "name with a blank": ("A B=2", "1:1", "'A B' cannot name"),
    "name in another script": ("größe=1", "1:1", "cannot name"),
    "open double quote": ('X=1\nY= "a\nZ=2\n', "2:4", "opens the value of Y is not closed"),
    "open at the end of an escape": ('X="a\\"', "1:3", "not closed"),
    "open single quote": ("X='it\n", "1:3", "double quotes"),
    "a quote too many": ("X='it's'", "1:7", "goes on behind its closing quote '"),
    "text behind a quote": ('X="a" b', "1:6", "goes on behind"),
    "text behind several lines": ('X="a\nb"c', "2:3", "goes on behind"),
    "CRLF counts once": ("X=1\r\n\r\nY", "3:1", "no ="),
    "behind a byte order mark": ("\ufeffX", "1:1", "no ="),
    "NUL": ("X=1\nY=a\0b", "2:4", "NUL"),
    "a key pasted without quotes": ("K=\n" + "Zm9+" * 16 + "==", "2:1", "64 characters"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_with_the_place(case: str) -> None:
    text, place, words = REFUSED[case]
    with pytest.raises(InputError) as caught:
        parse_env_file(text, "my.env")
    assert caught.value.where == f"my.env:{place}"
    assert words in str(caught.value)
    assert caught.value.hint
    assert caught.value.exit_code == 2
    assert "Zm9" not in str(caught.value)  # part of a secret, perhaps


DEEPSPEED = {
    "plain": ("A=1\nB = x y \n", (("A", "1"), ("B", "x y"))),
    "first = splits": ("A=b=c", (("A", "b=c"),)),
    "no end of line": ("A=1", (("A", "1"),)),
    "blank and comment": ("\nA=1\n \n # B=2\n#C=3\n", (("A", "1"),)),
    "export": ("export A=1\nexport\tB=2\nexport=3", (("A", "1"), ("B", "2"), ("export", "3"))),
    "quotes stay": ("A=\"x y\"\nB='z'", (("A", '"x y"'), ("B", "'z'"))),
    "a comment behind stays": ("A=1 # c", (("A", "1 # c"),)),
    "nothing is expanded": ("A=$HOME\\n`id`", (("A", "$HOME\\n`id`"),)),
    "Slurm": ("SLURM_TASKS_PER_NODE=64(x2)", (("SLURM_TASKS_PER_NODE", "64(x2)"),)),
    "CRLF and a byte order mark": ("\ufeffA=1\r\n\r\nB=\r\n", (("A", "1"), ("B", ""))),
    "twice": ("A=1\nA=2", (("A", "1"), ("A", "2"))),
}


@pytest.mark.parametrize("case", DEEPSPEED)
def test_reads_as_deepspeed_does(case: str) -> None:
    text, variables = DEEPSPEED[case]
    assert parse_deepspeed_env(text, ".deepspeed_env") == variables


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("A=1\n  hello\n", "2:3", "no ="),
        ("A=1\n\nexport A", "3:1", "no ="),
        (" =1", "1:2", "no name"),
        ("export A-B=1", "1:8", "'A-B' cannot name"),
        ("A=\0", "1:3", "NUL"),
    ],
)
def test_refuses_in_a_deepspeed_env(text: str, place: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_deepspeed_env(text, "~/.deepspeed_env")
    assert caught.value.where == f"~/.deepspeed_env:{place}"
    assert words in str(caught.value)


VALUES = st.text(st.characters(exclude_characters="\0"))
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)


def quoted(value: str) -> str:
    for raw, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\r", "\\r")):
        value = value.replace(raw, escaped)
    return f'"{value}"'


@given(
    st.lists(st.tuples(NAMES, VALUES), max_size=5),
    st.sampled_from(["\n", "\r\n", " # c\n", "\n\n"]),
    st.sampled_from(["", "export ", "  "]),
)
def test_a_value_in_double_quotes_comes_back(
    variables: list[tuple[str, str]], end: str, front: str
) -> None:
    text = "".join(f"{front}{name}={quoted(value)}{end}" for name, value in variables)
    assert list(parse_env_file(text, "e")) == variables


@given(NAMES, VALUES.filter(lambda value: not set(value) & set("'\r")))
def test_a_value_in_single_quotes_comes_back(name: str, value: str) -> None:
    assert parse_env_file(f"{name}='{value}'\n", "e") == ((name, value),)


@given(NAMES, VALUES.map(str.strip).filter(lambda value: not set(value) & set("\r\n")))
def test_a_line_of_deepspeed_comes_back(name: str, value: str) -> None:
    assert parse_deepspeed_env(f"{name}={value}\n", "e") == ((name, value),)


PIECES = st.sampled_from([*"AX=\"'\\# \t\n\r$\0-", "export ", "A=", "\ufeff"])


@given(st.text() | st.lists(PIECES, max_size=30).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_env_file, parse_deepspeed_env):
        try:
            variables = parse(text, "e")
        except InputError as error:
            if not (error.where and error.hint):
                raise
        else:
            assert all(is_variable(name) and "\0" not in value for name, value in variables)
