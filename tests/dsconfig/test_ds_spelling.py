"""What a name or a number was meant to be."""

from __future__ import annotations

import pytest

from zlaunch.dsconfig.numbers import as_json
from zlaunch.dsconfig.schema import own_schema
from zlaunch.dsconfig.spelling import nearest, plain_form


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("08", "8"),
        ("-007", "-7"),
        ("+8", "8"),
        ("0x10", "16"),
        ("-0xff", "-255"),
        ("0b101", "5"),
        ("0o17", "15"),
        (".5", "0.5"),
        ("-.5", "-0.5"),
        ("5.", "5"),
        ("1_000", "1000"),
        ("1,000,000", "1000000"),
        ("5E8", "5e8"),
        ("05e08", "5e08"),
        ("2**20", "1048576"),
        ("1024*1024", "1048576"),
        ("8;", "8"),
        ("1.5f", "1.5"),
        ("8L", "8"),
        ("0", "0"),
        ("", None),
        (".", None),
        ("1e", None),
        ("1,00", None),
        ("0x", None),
        ("cpu", None),
        ("8 8", None),
        ("9" * 99, None),
        ("99999**99999", None),
        ("f", None),
        ("\u0668", None),
    ],
)
def test_numbers_of_other_languages(written, meant):
    assert as_json(written) == meant


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("warmup_step", ("warmup_type", "warmup_num_steps"), "warmup_num_steps"),
        ("accumulation_steps", ("gradient_accumulation_steps",), "gradient_accumulation_steps"),
        ("gradient_clip", ("gradient_clipping", "gradient_predivide_factor"), "gradient_clipping"),
        ("Train-Batch-Size", ("train_batch_size",), "train_batch_size"),
        ("trainBatchSize", ("train_batch_size",), "train_batch_size"),
        ("overlap_com", ("overlap_comm", "overlap_step"), "overlap_comm"),
        ("quokka", ("queue_depth", "stage"), None),
        ("my_batch_size", ("train_batch_size",), "train_batch_size"),
        ("", ("stage",), None),
        ("stage", (), None),
    ],
)
def test_the_nearest_name(name, known, meant):
    assert nearest(name, known) == meant


def test_every_key_is_its_own_nearest():
    names = {path[-1] for path in own_schema().names()}
    assert {nearest(name, names) for name in names} == names
    assert {plain_form(name) for name in names} == names
