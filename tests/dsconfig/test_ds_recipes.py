from __future__ import annotations

import itertools
import json

import pytest

from zlaunch.dsconfig.document import Document
from zlaunch.dsconfig.finding import Around
from zlaunch.dsconfig.keypath import kind_of
from zlaunch.dsconfig.lint import lint
from zlaunch.dsconfig.recipes import load_recipe, merge, recipe_names
from zlaunch.dsconfig.render import render
from zlaunch.dsconfig.schema import own_schema
from zlaunch.errors import ConfigError

NAMES = ("ddp", "zero1", "zero2", "zero2-offload", "zero3", "zero3-nvme", "zero3-offload")


def test_the_shipped_recipes(sources):
    assert recipe_names(sources) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_recipe_says_what_it_is_for(sources, name):
    recipe = load_recipe(name, sources)
    assert recipe.name == recipe.chain[0] == name
    assert recipe.description
    assert recipe.deepspeed == (name != "ddp")
    assert bool(recipe.config) == recipe.deepspeed


@pytest.mark.parametrize("name", NAMES)
def test_recipes_use_keys_that_deepspeed_knows_with_the_right_kind(sources, name):
    kinds = {"int": int, "float": (int, float), "bool": bool, "str": str, "list": list}

    def check(table, above=()):
        for key, value in table.items():
            kind = kind_of((*above, key))
            assert kind is not None, (*above, key)
            if kind == "section":
                check(value, (*above, key))
            else:
                assert isinstance(value, kinds[kind]), (*above, key)
                assert kind == "bool" or not isinstance(value, bool), (*above, key)

    recipe = load_recipe(name, sources)
    check(recipe.config)
    check(recipe.precisions)


@pytest.mark.parametrize(
    ("name", "stage", "optimizer", "param"),
    [
        ("zero1", 1, None, None),
        ("zero2", 2, None, None),
        ("zero3", 3, None, None),
        ("zero2-offload", 2, "cpu", None),
        ("zero3-offload", 3, "cpu", "cpu"),
        ("zero3-nvme", 3, "nvme", "nvme"),
    ],
)
def test_stage_and_offload(sources, name, stage, optimizer, param):
    zero = load_recipe(name, sources).config["zero_optimization"]
    assert zero["stage"] == stage
    for section, device in (("offload_optimizer", optimizer), ("offload_param", param)):
        assert zero.get(section, {}).get("device") == device
        assert zero.get(section, {"pin_memory": True})["pin_memory"] is True
        if device == "nvme":
            assert zero[section]["nvme_path"] == "/local_nvme"
    assert ("aio" in load_recipe(name, sources).config) == (optimizer == "nvme")


def test_zero3_sizes_and_whole_weights_on_save(sources):
    zero = load_recipe("zero3", sources).config["zero_optimization"]
    sizes = {key: value for key, value in zero.items() if key.startswith("stage3_")}
    assert sizes.pop("stage3_gather_16bit_weights_on_model_save") is True
    assert sorted(sizes) == [
        "stage3_max_live_parameters",
        "stage3_max_reuse_distance",
        "stage3_param_persistence_threshold",
        "stage3_prefetch_bucket_size",
    ]


def test_extends_merges_tables_and_the_nearest_wins():
    sources = {
        "_base": "[config]\nsteps_per_print = 50\n[config.zero_optimization]\nstage = 1\n"
        "overlap_comm = true\n[precision.fp16]\nenabled = true\nhysteresis = 2",
        "mid": 'extends = "_base"\n[config.zero_optimization]\nstage = 2',
        "top": 'description = "d"\nextends = "mid"\n[config.optimizer.params]\nbetas = [0.9]\n'
        "[precision.fp16]\nhysteresis = 4",
    }
    recipe = load_recipe("top", sources)
    assert recipe.chain == ("top", "mid", "_base")
    assert recipe.config == {
        "steps_per_print": 50,
        "zero_optimization": {"stage": 2, "overlap_comm": True},
        "optimizer": {"params": {"betas": [0.9]}},
    }
    assert recipe.precisions == {"fp16": {"enabled": True, "hysteresis": 4}}
    assert load_recipe("mid", sources).description == ""


def test_merge_leaves_both_sides_alone():
    below, above = {"a": {"b": [1]}}, {"a": {"c": [2]}}
    merged = merge(below, above)
    merged["a"]["b"].append(9)
    merged["a"]["c"].append(9)
    assert (below, above) == ({"a": {"b": [1]}}, {"a": {"c": [2]}})


def test_deepspeed_false_is_inherited():
    sources = {"_off": "deepspeed = false", "x": 'extends = "_off"'}
    assert load_recipe("x", sources).deepspeed is False


def test_unknown_name_offers_the_nearest_and_all(sources):
    with pytest.raises(ConfigError) as caught:
        load_recipe("zero2-offlaod", sources)
    assert str(caught.value).startswith('no recipe is called "zero2-offlaod"')
    assert "did you mean zero2-offload" in str(caught.value)
    assert ", ".join(NAMES) in str(caught.value)


def test_the_base_is_not_a_recipe(sources):
    with pytest.raises(ConfigError, match='no recipe is called "_base"'):
        load_recipe("_base", sources)


@pytest.mark.parametrize(
    ("sources", "where", "message"),
    [
        ({"x": 'extends = "x"'}, "x", "in a circle: x -> x"),
        ({"x": 'extends = "y"', "y": 'extends = "x"'}, "y", "in a circle: x -> y -> x"),
        ({"x": 'extends = "yy"', "y": ""}, "x", 'no recipe is called "yy"'),
        ({"x": "a = 1\n[config\nb = 2"}, "x:2:8", "not TOML"),
        ({"x": 'extends = "y"', "y": "a = = 1"}, "y:1:5", "not TOML"),
        ({"x": 'description = "never closed'}, "x:1:28", "not TOML"),
        ({"x": "a = 1\na = 2"}, "x:2:6", "not TOML"),
        ({"x": "descripton = 'd'"}, "x", 'no key "descripton"'),
        ({"x": "[zero_optimization]\nstage = 2"}, "x", 'no key "zero_optimization"'),
        ({"x": "config = 3"}, "x", '"config" has to be a table'),
        ({"x": "deepspeed = 'no'"}, "x", '"deepspeed" has to be true or false'),
        ({"x": "extends = ['y']"}, "x", '"extends" has to be text in quotes'),
        ({"x": "[precision]\nfp16 = true"}, "x", '"precision.fp16" has to be a table'),
        ({"x": "deepspeed = false\n[config]\nsteps_per_print = 1"}, "x", "without DeepSpeed"),
    ],
)
def test_a_bad_recipe_is_named_with_its_place(sources, where, message):
    with pytest.raises(ConfigError) as caught:
        load_recipe("x", sources)
    assert caught.value.where == where
    assert message in caught.value.message
    assert caught.value.exit_code == 2


def test_hints_for_keys_in_the_wrong_place():
    with pytest.raises(ConfigError, match='did you mean "description"'):
        load_recipe("x", {"x": "descripton = 'd'"})
    with pytest.raises(ConfigError, match=r"belong under \[config\]"):
        load_recipe("x", {"x": "steps_per_print = 5"})


@pytest.mark.parametrize("target", ["plain", "hf", "accelerate"])
@pytest.mark.parametrize("name", NAMES[1:])
def test_every_recipe_is_lint_clean_for_all_who_read_it(name, target, sources):
    """For every precision and number of ranks, and with what users set first."""
    recipe = load_recipe(name, sources)
    seen = set()
    for precision, world in itertools.product(("fp16", "bf16", "fp32"), (1, 2, 8, 13)):
        config = render(
            recipe.config,
            precisions=recipe.precisions,
            precision=precision,
            target=target,
            world_size=world,
        ).config
        around = Around(own_schema(), target, world, bf16=True, cpu=False)
        found = [f for f in lint(Document(config), around) if f.level != "note"]
        assert not found, (precision, world, found)
        batch = ("train_batch_size", "train_micro_batch_size_per_gpu")
        seen.add((precision, json.dumps({k: v for k, v in config.items() if k not in batch})))
        if target != "plain":
            assert [config[key] for key in batch] == ["auto", "auto"]
    assert len(seen) == 3, "ranks change the batch alone"
