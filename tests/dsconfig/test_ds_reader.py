"""The located reader: the same values as json and hjson, and the place of everything."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zlaunch.dsconfig.document import Position
from zlaunch.dsconfig.reader import read_document

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=6), VALUES), st.sampled_from([None, 0, 4]))
def test_reads_json_as_json_does(value, indent):
    for ascii_only in (True, False):
        text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
        document = read_document(text)
        assert document.value == value
        assert document.oddities == ()


PIECES = st.sampled_from(
    [
        *('"a"', "a", "b:", "a b", '"a":', ":", ",", "{", "}", "[", "]", "\n", " ", "\t", "\r\n"),
        *("1", "-0", "5e8", "1.50", "007", "true", "false", "null", "True", "None", "nan", "tru"),
        *("# c\n", "// c\n", "/* c */", "/*", "'", "'x'", "'''", "'''x\n y\n'''", '"\\u00e9"'),
        *("text, with", "}x", "x]", "http://a.b", '"', "\\"),
    ]
)


@settings(deadline=None, max_examples=600)
@given(st.lists(PIECES, max_size=14), st.booleans())
def test_reads_hjson_as_hjson_does(pieces, braces):
    hjson = pytest.importorskip("hjson")
    text = "{\n" + "".join(pieces) + "\n}" if braces else "".join(pieces)
    document = read_document(text)
    if any(oddity.fatal for oddity in document.oddities) or not document.complete:
        return
    try:
        expected = hjson.loads(text)
    except (IndexError, ValueError):  # hjson stumbles itself over /* and ''' on a single line
        assert {"/*", "'''"} & set(pieces), text
        return
    assert document.value == expected


@settings(deadline=None)
@given(st.text(max_size=40))
def test_no_text_breaks_it(text):
    document = read_document(text)
    assert document.complete or any(oddity.fatal for oddity in document.oddities)


HJSON = """\
{
  # a comment
  train_batch_size: 32   // no quotes
  "fp16": {"enabled": true,},
  betas: [
    0.9
    0.95
  ]
  job_name: run, the first
  text:
    '''
    two
      lines
    '''
}
"""


def test_hjson_with_the_places_of_keys_and_values():
    document = read_document(HJSON)
    assert document.value == {
        "train_batch_size": 32,
        "fp16": {"enabled": True},
        "betas": [0.9, 0.95],
        "job_name": "run, the first",
        "text": "two\n  lines",
    }
    assert document.keys["train_batch_size",] == Position(3, 3)
    assert document.values["train_batch_size",] == Position(3, 21)
    assert document.keys["fp16", "enabled"] == Position(4, 12)
    assert document.values["betas", 1] == Position(7, 5)
    assert document.place(("fp16", "missing")) == Position(4, 3)
    assert document.place(("nothing",)) == Position(1, 1)
    assert not any(oddity.fatal for oddity in document.oddities)
    assert [oddity.code for oddity in document.oddities][:4] == [
        "comment",
        "unquoted-key",
        "comment",
        "missing-comma",
    ]


@pytest.mark.parametrize(
    ("text", "code", "line", "column", "fatal"),
    [
        ('{"a": 1,\n}', "trailing-comma", 1, 8, False),
        ('{"a": 1\n"b": 2}', "missing-comma", 1, 8, False),
        ('{"a": 1 "b": 2}', "missing-comma", 1, 8, True),
        ('{"a": true "b": 2\n}', "missing-comma", 1, 11, True),
        ('{"a": "x" "b": 2}', "missing-comma", 1, 10, False),
        ('{"a": [1 2]}', "missing-comma", 1, 9, True),
        ('{"a": 1,\n "a": 2}', "duplicate-key", 2, 2, True),
        ('{"a": {"b": 1}', "unclosed", 1, 1, True),
        ('{\n"a": {\n"b": 1\n', "unclosed", 2, 6, True),
        ('{"a": [1, 2}', "unclosed", 1, 12, True),
        ('{"a": "x}', "unclosed", 1, 7, True),
        ('{"a": 1} /* x', "unclosed", 1, 10, True),
        ("{'a': 1}", "single-quotes", 1, 2, False),
        ('{"a": True}', "python-word", 1, 7, True),
        ('{"a": None,\n"b": 1}', "python-word", 1, 7, True),
        ('{"a": True\n}', "python-word", 1, 7, False),
        ('{"a": NaN}', "nan", 1, 7, True),
        ('{"a": -Infinity}', "nan", 1, 7, True),
        ('{"device": cpu,\n"b": 1}', "unquoted-text", 1, 12, True),
        ('{"device": cpu}', "unquoted-text", 1, 12, True),
        ('{"a" 1}', "syntax", 1, 6, True),
        ('{"a": , "b": 1}', "syntax", 1, 7, True),
        ('{"a": }', "syntax", 1, 7, True),
        ('{"a": 1,, "b": 1}', "syntax", 1, 9, True),
        ('{"a": "\\q"}', "syntax", 1, 8, True),
        ('{"a": 1} {', "syntax", 1, 10, True),
        ('{"a": 08}', "number", 1, 7, True),
        ('{"a": 08\n}', "number", 1, 7, False),
        ('{"a": +8, "b": 1}', "number", 1, 7, True),
        ('{"a": [.5, 1]}', "number", 1, 8, True),
        ('{"a": 2**20 // a power\n}', "number", 1, 7, True),
        ('{"b": 1,\n"a": 1,000}', "number", 2, 6, True),
        ('{"a": 1e400}', "number", 1, 7, True),
        ('{"a": ' + "9" * 5000 + "}", "number", 1, 7, True),
        ('{"a":\u00a08}', "odd-space", 1, 6, True),
        ('{"a": 8\u00a0}', "odd-space", 1, 8, True),
        ('{\n\u2003"a": 8,\n\u2003"b": 1}', "odd-space", 2, 1, True),
        ('{"a": 8}\u200b', "odd-space", 1, 9, True),
        ('{"a": (0.9, 0.95)}', "python-tuple", 1, 7, True),
        ('{"a": (1,), "b": ()}', "python-tuple", 1, 7, True),
        ("{\u201ca\u201d: 1, \u201cb\u201d: 2}", "curly-quotes", 1, 2, True),
        ('{"a": \u2018x\u2019}', "curly-quotes", 1, 7, True),
        ('{"a" = 1}', "syntax", 1, 6, True),
        ('{"a" => 1}', "syntax", 1, 6, True),
        ('config = {"a": 1}', "program", 1, 1, True),
        ('\nconst config: Config = {"a": 1};', "program", 2, 1, True),
        ('module.exports = {"a": 1}', "program", 1, 1, True),
        ("import json\n{}", "program", 1, 1, True),
        ('{"a": 1\0}', "nul", 1, 8, True),
        ("", "empty", 1, 1, True),
        ("# nothing\n", "empty", 1, 1, True),
    ],
)
def test_slips_are_found_where_they_are(text, code, line, column, fatal):
    found = [oddity for oddity in read_document(text).oddities if oddity.code == code]
    assert [(o.place, o.fatal) for o in found][:1] == [(Position(line, column), fatal)]
    assert len(found) == 1 or code == "python-tuple"


@pytest.mark.parametrize(
    ("text", "value", "mend"),
    [
        ('{"a": 08, "b": 1}', {"a": 8, "b": 1}, "write 8"),
        ('{"a": 0x10}', {"a": 16}, "write 16"),
        ('{"a": 1_000}', {"a": 1000}, "write 1000"),
        ('{"a": -.5}', {"a": -0.5}, "write -0.5"),
        ('{"a": 1,000}', None, "write 1000"),
        ('{"a": (0.9, 0.95)}', {"a": [0.9, 0.95]}, "write [0.9, 0.95]"),
        ('{"a": (1,)}', {"a": [1]}, "write [1]"),
        ("{\u201ca\u201d: \u201cx\u201d}", {"a": "x"}, 'write "a", and so everywhere'),
        ('{\u00a0"a":\u00a08\u00a0}', {"a": 8}, "write plain spaces; so wherever it stands"),
        ('ds = {"a": 8}\nrun(ds)', {"a": 8}, "take ds = out"),
        ('{"a" = 8}', {"a": 8}, "write :"),
        ('{"a": undefined}', {"a": "undefined"}, "write null, or leave the key out"),
        ('{\0"\0a\0', None, "save it as UTF-8: this looks like UTF-16"),
    ],
)
def test_a_slip_has_its_mend_and_is_read_as_meant(text, value, mend):
    document = read_document(text)
    assert document.value == value
    assert [oddity.mend for oddity in document.oddities if oddity.fatal] == [mend]


def test_reading_goes_on_behind_a_slip():
    document = read_document('{"a": True, "b": cpu,\n"c": 5 "d": NaN, "a": 3}')
    assert document.value["b"] == "cpu"
    assert (document.value["a"], document.value["c"]) == (3, 5)
    assert math.isnan(document.value["d"])
    assert [oddity.code for oddity in document.oddities if oddity.fatal] == [
        "python-word",
        "unquoted-text",
        "missing-comma",
        "nan",
        "duplicate-key",
    ]


@pytest.mark.parametrize("text", ["[\x1f", "[\x85\n]", '{"a": \x1f}', "[\xa0True,]", "[\u2028,]"])
def test_odd_spaces_do_not_hold_it_up(text):
    read_document(text)


def test_numbers_are_whole_where_hjson_makes_them_so():
    value = read_document('{"a": 5e8, "b": 32.0, "c": 1e-3, "d": 1e12, "e": 1e999}').value
    assert value == {"a": 500000000, "b": 32, "c": 0.001, "d": 1e12, "e": math.inf}
    assert type(value["a"]) is int
