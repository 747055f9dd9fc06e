from __future__ import annotations

import contextlib
import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zlaunch.dsconfig.keypath import kind_of, known_paths, nearest
from zlaunch.dsconfig.overrides import Override, apply_overrides, parse_override
from zlaunch.errors import ConfigError, ZlaunchError

INT, FLOAT = "zero_optimization.reduce_bucket_size", "optimizer.params.lr"


@pytest.mark.parametrize(
    ("key", "written", "value"),
    [
        ("zero_optimization.stage", "3", 3),
        (INT, "5e8", 500_000_000),
        (INT, "5E+8", 500_000_000),
        (INT, "0.5e9", 500_000_000),
        (INT, "5_000", 5000),
        (INT, "1.0", 1),
        (INT, "-1", -1),
        (INT, "9223372036854775807", 2**63 - 1),
        (INT, "auto", "auto"),
        (INT, " 5 ", 5),
        (INT, "none", None),
        (INT, "null", None),
        ("train_batch_size", "1e3", 1000),
        ("scheduler.params.warmup_num_steps", "1e3", 1000),
        (FLOAT, "1e-5", 1e-5),
        (FLOAT, "3", 3),
        (FLOAT, ".5", 0.5),
        (FLOAT, '"auto"', "auto"),
        ("gradient_clipping", "1.0", 1.0),
        ("gradient_clipping", "None", None),
        ("fp16.loss_scale", "1_024", 1024),
        ("fp16.enabled", "true", True),
        ("fp16.enabled", "False", False),
        ("optimizer.params.betas", "[0.9,0.95]", [0.9, 0.95]),
        ("optimizer.params.betas", "[ 0.9, 0.95 ]", [0.9, 0.95]),
        ("compile.passes", "[z1,z3]", ["z1", "z3"]),
        ("compile.passes", '["z1"]', ["z1"]),
        ("compile.passes", "[]", []),
        ("log_level", "debug", "debug"),
        ("log_level", '"debug"', "debug"),
        ("wandb.project", "123", "123"),
        ("wandb.project", "a=b", "a=b"),
        ("wandb.project", "two words", "two words"),
        ("wandb.group", '""', ""),
        ("wandb.group", "null", None),
        # a word of DeepSpeed's, not the absence of one
        ("zero_optimization.offload_optimizer.device", "none", "none"),
        ("zero_optimization.offload_param.nvme_path", "/data/nvme disk", "/data/nvme disk"),
        ("zero_optimization.zenflow.select_interval", "5", 5),
        ("zero_optimization.zenflow.select_interval", "auto", "auto"),
        ("data_types.keep_in_fp32_modules", "auto", "auto"),
        ("data_types.keep_in_fp32_modules", '["inv_freq"]', ["inv_freq"]),
        ("scheduler", "null", None),
        ("zero_optimization", '{"stage": 1}', {"stage": 1}),
        # open sections: any key, the best guess for the value
        ("optimizer.params.momentum", "0.9", 0.9),
        ("optimizer.params.nesterov", "true", True),
        ("optimizer.params.foo", "bar", "bar"),
        ("optimizer.params.foo", "5_000", 5000),
        ("optimizer.params.foo", "[1,2]", [1, 2]),
        ("optimizer.params.foo.deeper", "1", 1),
        ("datastates_ckpt.a.b.c", "x", "x"),
    ],
)
def test_values_are_read_for_the_kind_of_their_key(key, written, value):
    override = parse_override(f"{key}={written}")
    assert override == Override(tuple(key.split(".")), value)
    assert type(override.value) is type(value)
    assert override.key == key


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{INT}=2.5", "has to be an integer (this has a fraction), not 2.5"),
        (f"{INT}=1e-1", "an integer (this has a fraction)"),
        (f"{INT}=big", "has to be an integer, not big"),
        (f"{INT}=", "has to be an integer, not nothing"),
        (f"{INT}=true", "has to be an integer, not true"),
        (f'{INT}="5e8"', "has to be an integer"),
        (f"{INT}=1e999999999", "an integer of at most 9223372036854775807"),
        (f"{INT}=9223372036854775808", "an integer of at most 9223372036854775807"),
        (f"{INT}={'1' * 5000}", "has to be an integer"),
        (f"{INT}=inf", "has to be an integer"),
        (f"{FLOAT}=nan", "has to be a number, not nan"),
        (f"{FLOAT}=1e400", "a finite number"),
        (f"{FLOAT}=1e99999999999999999999", "a number"),
        (f"{FLOAT}=abc", "has to be a number"),
        ("fp16.enabled=1", "has to be true or false, not 1"),
        ("fp16.enabled=yes", "has to be true or false, not yes"),
        ("optimizer.params.betas=0.9", "has to be a list, such as [0.9,0.95]"),
        ("optimizer.params.betas=[0.9,", "has to be a list"),
        ("optimizer.params.betas=[,]", "has to be a list"),
        ("log_level=", "has to be a word"),
        ('log_level="open', "a word, or text in double quotes"),
        ("zero_optimization=3", "has to be a section of keys, not 3"),
        ("zero_optimization=[1]", "has to be a section of keys"),
        ('zero_optimization={"stage": NaN}', "has to be a section of keys"),
        ('zero_optimization={"stge": 1}', 'no key "zero_optimization.stge"'),
        ("no-equals", "has to be KEY=VALUE"),
        ("=3", "has to be KEY=VALUE"),
        ("a..b=3", "has to be KEY=VALUE"),
        ("", "has to be KEY=VALUE"),
        ("train_batch_size.x=1", 'no key "train_batch_size.x"'),
        ("elasticity.enabled=true", '"elasticity.enabled" was taken out of DeepSpeed'),
        ("amp=true", '"amp" was taken out of DeepSpeed'),
        ("zero_optimization.mics_shard_size=2", "was taken out of DeepSpeed"),
    ],
)
def test_a_bad_override_is_refused_with_the_reason(text, message):
    with pytest.raises(ConfigError) as caught:
        parse_override(text)
    assert message in caught.value.message
    assert caught.value.where == f"--set {text}"


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("gradient_clipp1ng", "gradient_clipping"),
        ("gradient_cliping", "gradient_clipping"),
        ("train_micro_batch_size_per_gpus", "train_micro_batch_size_per_gpu"),
        ("micro_batch_size_per_gpu", "train_micro_batch_size_per_gpu"),
        ("zero_optimisation.stage", "zero_optimization.stage"),
        ("zero_optimization.stge", "zero_optimization.stage"),
        ("zero_optimization.reduce_bucket", "zero_optimization.reduce_bucket_size"),
        (
            "zero_optimization.offload_optimizer.devise",
            "zero_optimization.offload_optimizer.device",
        ),
        ("fp16.initial_scale_pwr", "fp16.initial_scale_power"),
        # known in another section
        ("stage", "zero_optimization.stage"),
        ("overlap_comm", "zero_optimization.overlap_comm"),
        ("loss_scale", "fp16.loss_scale"),
        ("zero_optimization.loss_scale", "fp16.loss_scale"),
        ("zero_optimization.gradient_clipping", "gradient_clipping"),
        ("lr", "optimizer.params.lr"),
        ("optimizer.lr", "optimizer.params.lr"),
        ("overlap_com", "zero_optimization.overlap_comm"),
        ("offload_optimizer", "zero_optimization.offload_optimizer"),
    ],
)
def test_the_key_that_was_meant_comes_first(key, meant):
    assert nearest(tuple(key.split(".")))[0] == meant
    with pytest.raises(ConfigError, match=f"did you mean {meant}"):
        parse_override(f"{key}=1")


def test_a_key_unlike_any_other_gets_no_hint():
    with pytest.raises(ConfigError) as caught:
        parse_override("qqqqqqqq=1")
    assert caught.value.hint is None


def test_every_known_path_has_a_kind():
    paths = known_paths()
    assert len(paths) == len(set(paths)) > 200
    assert all(kind_of(path) for path in paths)
    assert kind_of(("optimizer", "params", "anything", "below")) == "any"
    assert kind_of(("zero_optimization", "anything")) is None


def _apply(config, *texts):
    return apply_overrides(config, [parse_override(text) for text in texts])


def test_overrides_change_a_copy():
    config = {"zero_optimization": {"stage": 2}, "optimizer": {"params": {"betas": [0.9, 0.999]}}}
    before = copy.deepcopy(config)
    changed = _apply(
        config,
        "zero_optimization.stage=3",
        "fp16.enabled=true",
        "optimizer.params.betas=[0.9,0.95]",
    )
    assert config == before
    assert changed == {
        "zero_optimization": {"stage": 3},
        "optimizer": {"params": {"betas": [0.9, 0.95]}},
        "fp16": {"enabled": True},
    }


def test_the_last_of_two_wins():
    assert _apply({}, "steps_per_print=1", "steps_per_print=2") == {"steps_per_print": 2}
    assert _apply({}, "fp16.enabled=true", "fp16=null") == {}


def test_null_takes_a_key_out_and_makes_nothing():
    config = {"scheduler": {"type": "WarmupLR"}, "zero_optimization": {"stage": 2}}
    changed = _apply(config, "scheduler=null", "zero_optimization.stage=null", "fp16.enabled=null")
    assert changed == {"zero_optimization": {}}


def test_a_way_through_a_value_is_refused():
    with pytest.raises(ConfigError, match='"fp16" is True in this config, not a section'):
        _apply({"fp16": True}, "fp16.enabled=true")
    assert _apply({"fp16": True}, "fp16=null", "fp16.enabled=true") == {"fp16": {"enabled": True}}


KEYS = st.sampled_from([".".join(path) for path in known_paths()])
WORDS = st.one_of(
    st.text(),
    st.text(alphabet='0123456789eE+-._"[]{}:, aunl', max_size=20),
    st.sampled_from(["true", "none", "null", "auto", "[" * 3000, '{"a":' * 3000, "1" * 5000]),
    st.floats().map(str),
    st.integers().map(str),
)


@settings(deadline=None, max_examples=300)
@given(st.one_of(st.text(), st.builds("{}={}".format, st.one_of(KEYS, st.text()), WORDS)))
def test_no_text_breaks_the_reader(text):
    with contextlib.suppress(ZlaunchError):
        override = parse_override(text)
        apply_overrides({"fp16": {"enabled": True}, "optimizer": 3}, [override])


@settings(deadline=None)
@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_integers_come_back_exact(number):
    assert parse_override(f"{INT}={number}").value == number


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_come_back_exact(number):
    assert parse_override(f"{FLOAT}={number!r}").value == number
