from __future__ import annotations

import copy
import json
from datetime import date

import pytest

from zlaunch.dsconfig.batch import Batch
from zlaunch.dsconfig.overrides import parse_override
from zlaunch.dsconfig.recipes import load_recipe
from zlaunch.dsconfig.render import render, to_json
from zlaunch.errors import BatchError, ConfigError

RECIPES = ("zero1", "zero2", "zero3", "zero2-offload", "zero3-offload", "zero3-nvme")
NUMBERS = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
PRECISIONS = {"fp16": {"enabled": True, "loss_scale": 0}, "bf16": {"enabled": True}}

GUIDE_STAGE_2 = {
    "train_batch_size": 128,
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 4,
    "gradient_clipping": 1.0,
    "fp16": {
        "enabled": True,
        "loss_scale": 0,
        "loss_scale_window": 1000,
        "initial_scale_power": 16,
        "hysteresis": 2,
        "min_loss_scale": 1,
    },
    "zero_optimization": {
        "stage": 2,
        "allgather_partitions": True,
        "allgather_bucket_size": 200_000_000,
        "overlap_comm": True,
        "reduce_scatter": True,
        "reduce_bucket_size": 200_000_000,
        "contiguous_gradients": True,
    },
    "optimizer": {
        "type": "AdamW",
        "params": {"lr": 5e-5, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01},
    },
    "scheduler": {
        "type": "WarmupLR",
        "params": {"warmup_min_lr": 0, "warmup_max_lr": 5e-5, "warmup_num_steps": 1000},
    },
    "steps_per_print": 50,
    "log_level": "info",
    "wall_clock_breakdown": False,
}


@pytest.fixture
def make(sources):
    """Renders a shipped recipe; overrides as text."""

    def make(name="zero2", *sets, precision="fp16", target="plain", world_size=8, **more):
        recipe = load_recipe(name, sources)
        return render(
            recipe.config if recipe.deepspeed else None,
            precisions=recipe.precisions,
            precision=precision,
            target=target,
            world_size=world_size,
            overrides=[parse_override(text) for text in sets],
            **more,
        )

    return make


def own(config, *sets, precision=None, target="plain", world_size=8, **more):
    """Renders a user's own file."""
    return render(
        config,
        precisions=PRECISIONS,
        precision=precision,
        target=target,
        world_size=world_size,
        overrides=[parse_override(text) for text in sets],
        from_file=True,
        **more,
    )


def test_zero2_in_fp16_is_the_guides_example_key_by_key(make):
    rendered = make("zero2", precision="fp16", world_size=8)
    assert rendered.config == GUIDE_STAGE_2
    assert rendered.batch == Batch(128, 4, 4)
    assert rendered.notes == ()


@pytest.mark.parametrize("world_size", [1, 2, 8, 13])
@pytest.mark.parametrize("target", ["plain", "hf", "accelerate"])
@pytest.mark.parametrize("precision", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_renders(make, name, precision, target, world_size):
    rendered = make(name, precision=precision, target=target, world_size=world_size)
    config = rendered.config
    assert json.loads(to_json(config)) == config
    assert config["log_level"] == "info"
    assert config["steps_per_print"] == 50
    enabled = {key: config.get(key, {}).get("enabled", False) for key in ("fp16", "bf16")}
    if target == "hf":
        assert enabled == {"fp16": "auto", "bf16": "auto"}
    else:
        assert enabled == {key: key == precision for key in ("fp16", "bf16")}
    if target == "plain":
        assert rendered.batch == Batch(16 * world_size, 4, 4)
        assert [config[key] for key in NUMBERS] == [16 * world_size, 4, 4]
        assert all(type(config[key]) is int for key in NUMBERS)
        assert "auto" not in to_json(config)
        assert {"optimizer", "scheduler"} <= set(config)
    else:
        assert rendered.batch is None
        assert [config[key] for key in (*NUMBERS, "gradient_clipping")] == ["auto"] * 4
        assert "scheduler" not in config
        assert ("optimizer" in config) == (target == "hf")
    assert config["zero_optimization"] == make(name).config["zero_optimization"]


def test_keys_have_one_order(make):
    keys = list(make("zero2").config)
    assert keys == list(GUIDE_STAGE_2)
    assert list(make("zero2", "fp16.hysteresis=1", "aio.queue_depth=4").config) == [*keys, "aio"]


def test_ddp_has_no_config(make):
    assert make("ddp").config is None
    with pytest.raises(ConfigError, match=r"--set fp16\.enabled has no ds_config to go into"):
        make("ddp", "fp16.enabled=true")
    with pytest.raises(ConfigError, match="a batch option has no ds_config"):
        make("ddp", micro=3)


def test_rendering_leaves_its_input_alone(sources):
    recipe = load_recipe("zero2-offload", sources)
    before = copy.deepcopy(recipe)
    for target in ("plain", "hf", "accelerate"):
        config = render(
            recipe.config,
            precisions=recipe.precisions,
            precision="fp16",
            target=target,
            world_size=2,
            overrides=[parse_override("fp16.hysteresis=1"), parse_override("optimizer.type=Lion")],
        ).config
        config["zero_optimization"]["stage"] = 0
        config["fp16"]["hysteresis"] = 9
    assert recipe == before


# batch numbers of a recipe


@pytest.mark.parametrize(
    ("asked", "sets", "expected"),
    [
        ({"micro": 2}, [], Batch(64, 2, 4)),
        ({"train": 256}, [], Batch(256, 4, 8)),
        ({"train": 64, "micro": 1}, [], Batch(64, 1, 8)),
        ({"accumulation": 1}, [], Batch(32, 4, 1)),
        ({}, ["train_batch_size=1e3"], Batch(1000, 1, 125)),
        ({"micro": 2}, ["train_batch_size=64"], Batch(64, 2, 4)),
        ({"micro": 2}, ["train_micro_batch_size_per_gpu=2"], Batch(64, 2, 4)),
        ({}, ["gradient_accumulation_steps=null"], Batch(128, 4, 4)),
    ],
)
def test_the_users_numbers_are_kept(make, asked, sets, expected):
    rendered = make("zero2", *sets, **asked)
    assert rendered.batch == expected
    assert [rendered.config[key] for key in NUMBERS] == [
        expected.train,
        expected.micro,
        expected.accumulation,
    ]


def test_numbers_that_do_not_multiply_out(make):
    with pytest.raises(BatchError, match="global batch 100"):
        make("zero2", train=100, micro=4)
    with pytest.raises(BatchError, match="smaller than the world size 8"):
        make("zero2", train=4)
    with pytest.raises(ConfigError, match='"train_batch_size" is set to 64 and, by the batch'):
        make("zero2", "train_batch_size=64", train=32)
    with pytest.raises(ConfigError, match='"train_batch_size" is "auto", and nobody fills it'):
        make("zero2", "train_batch_size=auto")


def test_a_recipe_may_fix_the_global_batch_itself():
    base = {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4}

    def batch(**asked):
        return render(
            base, precisions={}, precision=None, target="plain", world_size=2, **asked
        ).batch

    assert batch() == Batch(64, 4, 8)
    assert batch(micro=8) == Batch(64, 8, 4)
    assert batch(micro=8, accumulation=1) == Batch(16, 8, 1)


def test_ranks_that_share_their_samples(make):
    assert make("zero2", world_size=8, data_parallel=2).batch == Batch(32, 4, 4)
    assert make("zero2", "sequence_parallel_size=4", world_size=8).batch == Batch(32, 4, 4)
    with pytest.raises(BatchError, match="sequence_parallel_size 3 does not divide world size 8"):
        make("zero2", "sequence_parallel_size=3", world_size=8)


# precision


def test_overrides_tune_the_chosen_precision(make):
    config = make("zero2", "fp16.initial_scale_power=12", precision="fp16").config
    assert config["fp16"] == {**GUIDE_STAGE_2["fp16"], "initial_scale_power": 12}


def test_two_precisions_are_refused(make):
    with pytest.raises(ConfigError, match="fp16 and bf16 are both enabled"):
        make("zero2", "bf16.enabled=true", precision="fp16")
    with pytest.raises(ConfigError, match="fp16 and bf16 are both enabled"):
        own({"train_batch_size": 8, "fp16": {"enabled": True}, "bf16": {"enabled": True}})
    config = make("zero2", "bf16.enabled=true", "fp16.enabled=false", precision="fp16").config
    assert config["bf16"] == {"enabled": True}


def test_fp32_has_no_half_precision_section(make):
    config = make("zero2", precision="fp32").config
    assert not {"fp16", "bf16"} & set(config)
    assert not {"fp16", "bf16"} & set(make("zero2", precision=None).config)


# targets


def test_the_trainer_fills_exactly_these(make):
    config = make("zero2-offload", target="hf", precision=None).config
    autos = {key for key, value in config.items() if value == "auto"}
    assert autos == {*NUMBERS, "gradient_clipping"}
    assert config["optimizer"] == {
        "type": "AdamW",
        "params": dict.fromkeys(("lr", "betas", "eps", "weight_decay"), "auto"),
    }
    assert config["fp16"] == {**GUIDE_STAGE_2["fp16"], "enabled": "auto"}
    assert config["bf16"] == {"enabled": "auto"}
    assert "zero_force_ds_cpu_optimizer" not in config


def test_the_trainer_does_not_take_precision_from_the_config(make):
    assert make(target="hf", precision=None).notes == ()
    (note,) = make(target="hf", precision="bf16").notes
    assert "--bf16, --fp16): bf16 has to be asked for there" in note


def test_accelerate_decides_both_precisions(make):
    config = make(target="accelerate", precision="bf16").config
    assert (config["bf16"], config["fp16"]) == ({"enabled": True}, {"enabled": False})
    config = make(target="accelerate", precision="fp16").config
    assert (config["fp16"], config["bf16"]) == (GUIDE_STAGE_2["fp16"], {"enabled": False})
    config = make(target="accelerate", precision="fp32").config
    assert (config["fp16"], config["bf16"]) == ({"enabled": False}, {"enabled": False})


@pytest.mark.parametrize("name", RECIPES)
def test_accelerate_keeps_the_scripts_optimizer_under_offload(make, name):
    config = make(name, target="accelerate").config
    expected = False if name.endswith(("offload", "nvme")) else None
    assert config.get("zero_force_ds_cpu_optimizer") is expected
    assert "zero_force_ds_cpu_optimizer" not in make(name).config


def test_offload_by_override_counts_too(make):
    device = "zero_optimization.offload_optimizer.device"
    assert (
        make("zero2", f"{device}=cpu", target="accelerate").config["zero_force_ds_cpu_optimizer"]
        is False
    )
    assert (
        "zero_force_ds_cpu_optimizer"
        not in make("zero2-offload", f"{device}=none", target="accelerate").config
    )
    assert make("zero2-offload", "zero_force_ds_cpu_optimizer=true", target="accelerate").config[
        "zero_force_ds_cpu_optimizer"
    ]


@pytest.mark.parametrize("target", ["hf", "accelerate"])
def test_explicit_numbers_win_over_auto(make, target):
    def numbers(**asked):
        rendered = make(target=target, **asked)
        return [rendered.config[key] for key in NUMBERS], rendered.batch

    assert numbers(micro=2) == (["auto", 2, "auto"], None)
    assert numbers(train=64) == ([64, "auto", "auto"], None)
    assert numbers(train=64, micro=2) == ([64, 2, 4], Batch(64, 2, 4))
    assert numbers(micro=2, accumulation=3) == ([48, 2, 3], Batch(48, 2, 3))
    with pytest.raises(BatchError):
        numbers(train=100, micro=4)
    with pytest.raises(BatchError):
        numbers(train=100)
    config = make("zero2", "gradient_clipping=0.5", target=target).config
    assert config["gradient_clipping"] == 0.5


@pytest.mark.parametrize(
    ("target", "key", "section"),
    [
        ("accelerate", "optimizer.params.lr=1e-4", "optimizer"),
        ("accelerate", "scheduler.params.warmup_num_steps=10", "scheduler"),
        ("hf", "scheduler.params.warmup_num_steps=10", "scheduler"),
    ],
)
def test_half_a_section_is_refused(make, target, key, section):
    with pytest.raises(ConfigError, match=f'"{section}" is set without its type') as caught:
        make("zero2", key, target=target)
    assert f"--set {section}.type=NAME" in caught.value.hint
    config = make("zero2", key, f"{section}.type=X", target=target).config
    assert config[section]["type"] == "X"


# the user's own file


def test_a_complete_file_stays_as_it_is():
    config = {
        "zero_optimization": {"stage": 2},
        "gradient_accumulation_steps": 8,
        "train_batch_size": 256,
        "steps_per_print": 10,
        "train_micro_batch_size_per_gpu": 4,
        "log_level": "info",
        "my_own": [1, {"b": None}],
    }
    rendered = own(config)
    assert rendered.config == config
    assert list(rendered.config) == list(config)
    assert rendered.batch == Batch(256, 4, 8)
    assert rendered.notes == ()


@pytest.mark.parametrize(
    ("config", "asked", "expected"),
    [
        ({"train_batch_size": 256, "train_micro_batch_size_per_gpu": 4}, {}, Batch(256, 4, 8)),
        ({"train_batch_size": 256, "gradient_accumulation_steps": 8}, {}, Batch(256, 4, 8)),
        ({"train_micro_batch_size_per_gpu": 4}, {}, Batch(32, 4, 1)),
        ({"train_batch_size": 256}, {}, Batch(256, 32, 1)),
        ({"train_batch_size": 256.0, "train_micro_batch_size_per_gpu": 4}, {}, Batch(256, 4, 8)),
        ({"gradient_accumulation_steps": 8}, {"micro": 4}, Batch(256, 4, 8)),
        ({}, {"train": 256, "micro": 4}, Batch(256, 4, 8)),
        ({"train_batch_size": "auto"}, {"train": 256, "micro": 4}, Batch(256, 4, 8)),
        (
            {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4},
            {"train": 256},
            Batch(256, 4, 8),
        ),
    ],
)
def test_missing_numbers_of_a_file_are_solved_as_deepspeed_does(config, asked, expected):
    rendered = own(config, **asked)
    assert rendered.batch == expected
    assert {key: rendered.config[key] for key in NUMBERS} == {
        "train_batch_size": expected.train,
        "train_micro_batch_size_per_gpu": expected.micro,
        "gradient_accumulation_steps": expected.accumulation,
    }
    assert all(type(rendered.config[key]) is int for key in NUMBERS)


@pytest.mark.parametrize(
    ("config", "asked", "message"),
    [
        ({}, {}, "neither train_batch_size nor train_micro_batch_size_per_gpu"),
        ({"gradient_accumulation_steps": 2}, {}, "neither train_batch_size"),
        ({"train_batch_size": 100, "train_micro_batch_size_per_gpu": 4}, {}, "batch 100 does not"),
        ({"train_batch_size": 100}, {}, "does not divide by accumulation 1 x 8 ranks"),
        (
            {
                "train_batch_size": 256,
                "train_micro_batch_size_per_gpu": 4,
                "gradient_accumulation_steps": 8,
            },
            {"micro": 2},
            "256 is not micro batch 2 x accumulation 8 x 8 ranks = 128",
        ),
        ({"train_batch_size": "many"}, {}, "whole number of at least 1, not 'many'"),
        ({"train_batch_size": 25.6}, {}, "whole number of at least 1, not 25.6"),
        ({"train_batch_size": 0}, {}, "whole number of at least 1, not 0"),
        ({"train_batch_size": 0.0}, {}, "whole number of at least 1, not 0.0"),
    ],
)
def test_a_file_whose_numbers_cannot_be_solved(config, asked, message):
    with pytest.raises(BatchError) as caught:
        own(config, **asked)
    assert message in caught.value.message


@pytest.mark.parametrize("key", NUMBERS)
def test_auto_in_a_plain_file_is_refused(key):
    config = {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, key: "auto"}
    with pytest.raises(ConfigError, match=f'"{key}" is "auto", and nobody fills it'):
        own(config)
    for target in ("hf", "accelerate"):
        rendered = own(config, target=target)
        assert rendered.config == config
        assert rendered.batch is None


def test_other_autos_of_a_plain_file_are_noted():
    config = {
        "train_batch_size": 64,
        "log_level": "info",
        "steps_per_print": 1,
        "fp16": {"enabled": "auto"},
        "optimizer": {"params": {"lr": "auto"}},
        "data_types": {"keep_in_fp32_modules": "auto"},
    }
    (note,) = own(config).notes
    assert "fp16.enabled, optimizer.params.lr;" in note
    assert own(config, target="hf").notes == ()


@pytest.mark.parametrize(
    ("present", "lacks"),
    [
        ({}, '"log_level": "info" and a finite "steps_per_print":'),
        ({"log_level": "warning", "steps_per_print": 5}, '"log_level": "info":'),
        ({"log_level": "info", "steps_per_print": float("inf")}, 'a finite "steps_per_print":'),
        ({"log_level": "DEBUG", "steps_per_print": 5}, None),
    ],
)
def test_a_file_that_keeps_overflows_silent_is_noted(present, lacks):
    notes = own({"train_batch_size": 64, **present}).notes
    if lacks is None:
        assert notes == ()
    else:
        assert len(notes) == 1
        assert lacks in notes[0]
        assert "0.17.6" in notes[0]


def test_accelerate_sets_steps_per_print_itself():
    assert own({"log_level": "info"}, target="accelerate").notes == ()


def test_the_precision_of_a_file_is_left_unless_asked_for():
    config = {"train_batch_size": 8, "fp16": {"enabled": True, "loss_scale": 128}}
    assert own(config).config["fp16"] == config["fp16"]
    assert own(config, precision="fp16").config["fp16"] == config["fp16"]
    changed = own(config, precision="bf16").config
    assert changed["fp16"] == {"enabled": False, "loss_scale": 128}
    assert changed["bf16"] == {"enabled": True}
    assert own(config, precision="fp32").config["fp16"]["enabled"] is False
    old = own({"train_batch_size": 8, "bfloat16": {"enabled": False}}, precision="bf16").config
    assert old["bfloat16"] == {"enabled": True}
    assert "bf16" not in old


def test_overrides_and_whole_numbers_of_a_file():
    config = {"train_batch_size": 8, "zero_optimization": {"reduce_bucket_size": 5e8, "stage": 2}}
    changed = own(config, "zero_optimization.stage=3", "optimizer.params.lr=1").config
    assert '"reduce_bucket_size": 500000000,' in to_json(changed)
    assert changed["zero_optimization"]["stage"] == 3
    assert changed["optimizer"] == {"params": {"lr": 1}}


def test_json_text():
    assert to_json({"a": 1, "b": {"c": [1.5, None]}}) == (
        '{\n    "a": 1,\n    "b": {\n        "c": [\n            1.5,\n            null\n'
        "        ]\n    }\n}\n"
    )
    with pytest.raises(ConfigError, match=r"a\.1 is inf: JSON has no such number"):
        to_json({"a": [1, float("inf")]})
    with pytest.raises(ConfigError, match=r"a\.b is 2020-01-01, and JSON has no such value"):
        to_json({"a": {"b": date(2020, 1, 1)}})
