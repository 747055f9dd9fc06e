"""What people type, config files of all kinds, and headers of safetensors files."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from zlaunch.errors import ConfigError, InputError
from zlaunch.memory.guess import guess_shape
from zlaunch.memory.model_config import shape_of_config
from zlaunch.memory.safetensors import (
    LONGEST,
    Stored,
    header_length,
    packed,
    parse_header,
    parse_index,
)
from zlaunch.memory.sizes import gib, human, parse_bytes, parse_count
from zlaunch.memory.stored_shape import shape_of_stored, with_stored


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("80GiB", 80 * 2**30),
        ("80GB", 80 * 10**9),
        ("24g", 24 * 2**30),
        ("24G", 24 * 2**30),
        ("1.5TiB", 3 * 2**39),
        ("2TB", 2 * 10**12),
        ("512 MiB", 2**29),
        ("1048576", 2**20),
        ("85899345920", 80 * 2**30),
        ("85899345920 bytes", 80 * 2**30),
        ("81559mi", 81559 * 2**20),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text, "--x") == size


@pytest.mark.parametrize(
    ("text", "meant"),
    [("80", "80GiB"), ("0.5", "0.5GiB"), ("81559", "81559MiB"), ("80b", "80GiB"), ("80k", "80GiB")],
)
def test_a_size_without_its_unit_is_not_taken_for_bytes(text: str, meant: str) -> None:
    with pytest.raises(InputError, match=meant):
        parse_bytes(text, "--gpu-memory")


NO_SIZES = ["", "GiB", "-1g", "8 0g", "80GiBs", "1e3", "0", "0g", "nan", "9" * 40]


@pytest.mark.parametrize("text", NO_SIZES)
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(InputError, match="--gpu-memory"):
        parse_bytes(text, "--gpu-memory")


@pytest.mark.parametrize(
    ("text", "count"),
    [("7b", 7e9), ("1.5B", 1.5e9), ("350m", 350e6), ("7e9", 7e9), ("6,738,415,616", 6738415616)],
)
def test_counts(text: str, count: float) -> None:
    assert parse_count(text, "--params") == count


@pytest.mark.parametrize("text", ["", "b", "7x", "-7b", "8x7b", "7e99", "seven", "1e18b", "0b"])
def test_what_is_no_count(text: str) -> None:
    with pytest.raises(InputError, match="--params") as caught:
        parse_count(text, "--params")
    if "x7b" in text:
        assert "46.7b" in str(caught.value)


@pytest.mark.parametrize("text", ["9e17", "1.1e14", "101t", "999999999999999"])
def test_more_parameters_than_any_model_has(text: str) -> None:
    with pytest.raises(InputError, match=r"10\^14"):
        parse_count(text, "--params")
    assert guess_shape(10**14).parameters == 10**14


def test_sizes_are_shown_with_their_unit() -> None:
    assert human(80 * 2**30) == "80.0 GiB"
    assert human(50 * 2**20) == "50 MiB"
    assert [gib(0), gib(1), gib(2**30)] == ["0", "<0.01", "1.00"]


@pytest.mark.parametrize(("count", "layers"), [(7e9, (28, 36)), (70e9, (60, 90)), (125e6, (6, 20))])
def test_a_guess_has_the_proportions_of_real_models(count: float, layers: tuple[int, int]) -> None:
    shape = guess_shape(int(count))
    assert layers[0] <= shape.layers <= layers[1]
    assert not shape.exact and "guess" in shape.notes[0]


def test_too_few_parameters() -> None:
    with pytest.raises(InputError, match="too few"):
        guess_shape(1000)
    with pytest.raises(InputError, match="did you mean 7b"):
        guess_shape(7)


# config.json

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "vocab_size": 100,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "tie_word_embeddings": False,
}


def read(changes: dict[str, Any] | None = None, base: dict[str, Any] = LLAMA) -> Any:
    table = {k: v for k, v in {**base, **(changes or {})}.items() if v is not ...}
    return shape_of_config(json.dumps(table, indent=2), "dir/config.json")


def test_an_unknown_family_is_counted_by_the_generic_names_and_says_so() -> None:
    shape = read({"model_type": "brandnew"})
    assert shape.parameters == read().parameters
    assert not shape.exact and "brandnew" in shape.notes[0]


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "num_attention_heads"])
def test_what_is_missing_is_named(key: str) -> None:
    with pytest.raises(ConfigError, match=key) as caught:
        read({key: ..., "model_type": "brandnew"})
    assert caught.value.where == "dir/config.json"


def test_what_a_known_family_leaves_out_is_taken_from_its_class_and_said() -> None:
    shape = read({"num_hidden_layers": ..., "hidden_size": None})
    assert (shape.layers, shape.hidden) == (32, 4096)
    assert "hidden_size 4096, num_hidden_layers 32" in shape.notes[0]
    assert read().notes == ()


WRONG = ["4096", -1, 0, 1.5, True, [1], [1] * 10_000, {}, 10**12, 10**300, float("nan"), 1e400]


@pytest.mark.parametrize("value", WRONG, ids=lambda value: str(value)[:20])
@pytest.mark.parametrize("key", ["hidden_size", "vocab_size", "num_attention_heads"])
def test_a_wrong_number_is_shown_with_its_line(key: str, value: Any) -> None:
    line = 4 + list(LLAMA).index(key)  # `{`, and the list at the top takes three lines
    with pytest.raises(ConfigError, match=key) as caught:
        read({key: value})
    assert str(caught.value.where) == f"dir/config.json:{line}"
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tie_word_embeddings": "false"}, "true or false"),
        ({"model_type": ["llama"]}, "model_type"),
        ({"model_type": "lla\x1b[31mma"}, "model_type"),
        ({"num_hidden_layers": 10**9}, "10,000 at most"),
        ({"model_type": "qwen3_moe", "mlp_only_layers": [[1]]}, "list of whole numbers"),
        ({"model_type": "qwen3_moe", "mlp_only_layers": 3}, "list of whole numbers"),
        ({"model_type": "mixtral", "num_local_experts": -8}, "num_local_experts"),
        ({"hidden_size": 10**8, "intermediate_size": 10**8}, "more than any"),
        ({"num_key_value_heads": {}}, "num_key_value_heads"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(changes)


def test_layers_with_experts_are_counted_and_not_walked_through() -> None:
    """As many as transformers makes of the same keys, however many layers there are."""
    table = {"model_type": "qwen3_moe", "num_experts": 4, "moe_intermediate_size": 8}
    for layers, step, only in ((7, 1, []), (7, 2, [1, 2, 99, -1]), (10_000, 3, [2, 5]), (3, 9, [])):
        changes = {"num_hidden_layers": layers, "decoder_sparse_step": step}
        shape = read({**table, **changes, "mlp_only_layers": only})
        dense = sum(i in only or (i + 1) % step != 0 for i in range(layers))
        assert shape.experts is not None and shape.experts.dense_layers == dense


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, '{"a": 1,}', "null"])
def test_what_is_no_config(text: str) -> None:
    with pytest.raises(ConfigError):
        shape_of_config(text, "config.json")


LARGE = {"tie_word_embeddings": False, "vocab_size": 128256, "num_key_value_heads": 8}
PUBLISHED = [
    ("llama", 8_030_261_248, {**LARGE, "hidden_size": 4096, "intermediate_size": 14336}, 32, 32),
    ("llama", 70_553_706_496, {**LARGE, "hidden_size": 8192, "intermediate_size": 28672}, 80, 64),
    (
        *("mixtral", 46_702_792_704),
        {**LARGE, "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336},
        *(32, 32),
    ),
    (
        *("qwen2", 494_032_768),
        {
            "vocab_size": 151936,
            "hidden_size": 896,
            "intermediate_size": 4864,
            "num_key_value_heads": 2,
            "tie_word_embeddings": True,
        },
        *(24, 14),
    ),
    (
        *("deepseek_v3", 671_026_404_352),
        {"hidden_size": 7168, "intermediate_size": 18432, "tie_word_embeddings": False},
        *(61, 128),
    ),
]


@pytest.mark.parametrize(("family", "count", "table", "layers", "heads"), PUBLISHED)
def test_published_models(
    family: str, count: int, table: dict[str, Any], layers: int, heads: int
) -> None:
    numbers = {"num_hidden_layers": layers, "num_attention_heads": heads}
    shape = read({"model_type": family, "architectures": ["ForCausalLM"], **numbers}, table)
    assert shape.parameters == count


def test_vision_beside_the_text() -> None:
    """Qwen2-VL keeps the text's numbers at the top; others keep the head's name there."""
    beside = read({"vision_config": {"depth": 2, "hidden_size": 32}})
    assert beside.parameters > read().parameters and not beside.exact
    text = {key: value for key, value in LLAMA.items() if key != "architectures"}
    above = read({"architectures": ["XForConditionalGeneration"], "text_config": text}, {})
    assert above.logits and not any("architectures" in note for note in above.notes)


def test_vision_and_text() -> None:
    vision = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64, "image_size": 28}
    shape = read({"model_type": "llava", "text_config": LLAMA, "vision_config": vision}, {})
    text = read()
    assert shape.layers == 2 and shape.hidden == 64
    assert text.parameters < shape.parameters
    unknown = read({"model_type": "new", "text_config": LLAMA, "vision_config": vision}, {})
    assert text.parameters < unknown.parameters < text.parameters + 50_000
    assert shape.exact and not unknown.exact
    broken = read({"model_type": "new", "text_config": LLAMA, "vision_config": {"depth": -1}}, {})
    assert broken.parameters == text.parameters


# safetensors


def header(**tensors: Any) -> bytes:
    return json.dumps({"__metadata__": {"format": "pt"}, **tensors}).encode()


def test_a_header_is_read_and_its_buffers_are_no_parameters() -> None:
    tensors = {
        "wte.weight": {"dtype": "BF16", "shape": [10, 4], "data_offsets": [0, 80]},
        "h.0.attn.bias": {"dtype": "F32", "shape": [1, 1, 8, 8], "data_offsets": [80, 90]},
        "h.0.rotary_emb.inv_freq": {"dtype": "F32", "shape": [2], "data_offsets": [80, 90]},
        "scale": {"dtype": "F32", "shape": [], "data_offsets": [80, 90]},
    }
    stored = parse_header(header(**tensors), "x")
    assert [(t.elements, t.trained) for t in stored] == [
        (40, True),
        (64, False),
        (2, False),
        (1, True),
    ]


@pytest.mark.parametrize("prefix", [b"", b"1234567", struct.pack("<Q", 2**63), b"\xff" * 8])
def test_hostile_lengths(prefix: bytes) -> None:
    with pytest.raises(ConfigError, match="no safetensors file") as caught:
        header_length(prefix, 10**12, "m.safetensors")
    assert caught.value.where == "m.safetensors"


def test_a_length_within_the_file_and_the_formats_limit() -> None:
    assert header_length(struct.pack("<Q", 100), 108, "x") == 100
    for length, size in ((100, 107), (LONGEST + 1, 10**12)):
        with pytest.raises(ConfigError):
            header_length(struct.pack("<Q", length), size, "x")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"\xff\xfe",
        b'{"a": 1}',
        b'{"a": {"dtype": "F32", "shape": [-1]}}',
        b'{"a": {"dtype": "F32", "shape": [1.5]}}',
        b'{"a": {"dtype": "F32", "shape": [true]}}',
        b'{"a": {"shape": [1]}}',
        b'{"a": {"dtype": "F32", "shape": [9999999999, 9999999999]}}',
        b"[" * 100_000,
    ],
)
def test_headers_that_are_none(text: bytes) -> None:
    with pytest.raises(ConfigError):
        parse_header(text, "x")


def test_an_index_names_files_of_its_own_folder_only() -> None:
    index = parse_index({"weight_map": {"a": "m-2.safetensors", "b": "m-1.safetensors"}}, "i")
    assert index.files == ("m-1.safetensors", "m-2.safetensors")
    bad: list[Any] = [{}, [1], None, {"weight_map": []}]
    bad += [
        {"weight_map": {"a": value}} for value in ("../../etc/passwd", [1], 1, None, "", "\x1b")
    ]
    for one in bad:
        with pytest.raises(ConfigError):
            parse_index(one, "i")


def test_an_index_whose_tensors_are_not_in_its_files() -> None:
    index = parse_index({"weight_map": {"a": "m.safetensors", "b": "m.safetensors"}}, "i")
    index.check((Stored("a", "F32", (1,)), Stored("b", "F32", (1,))), "i")
    with pytest.raises(ConfigError, match="1 tensors"):
        index.check((Stored("a", "F32", (1,)),), "i")


STORED = (
    Stored("model.embed_tokens.weight", "BF16", (100, 64)),
    *(
        Stored(f"model.layers.{n}.mlp.{name}.weight", "BF16", shape)
        for n in (0, 1)
        for name, shape in (("gate_proj", (128, 64)), ("up_proj", (128, 64)), ("down", (64, 128)))
    ),
    Stored("lm_head.weight", "BF16", (100, 64)),
)


def test_a_shape_from_tensors_alone() -> None:
    shape = shape_of_stored(STORED, "m.safetensors")
    assert (shape.hidden, shape.vocab, shape.layers, shape.intermediate) == (64, 100, 2, 128)
    assert shape.parameters == 2 * 6400 + 6 * 8192
    assert shape.mlp == "gated" and not shape.tied and "guessed" in shape.notes[0]


def test_tensors_win_over_the_config() -> None:
    unknown = read({"model_type": "brandnew"})
    counted = with_stored(unknown, STORED, "dir")
    assert counted.parameters == 2 * 6400 + 6 * 8192
    assert counted.exact and counted.notes == ()
    known = with_stored(read(), STORED, "dir")
    assert "61,952" in known.notes[0] and known.parameters == 61_952


def test_packed_weights_that_nobody_knows() -> None:
    quantized = (Stored("layers.0.weird", "I32", (100, 100)), Stored("n", "BF16", (10,)))
    assert packed(quantized) == "I32" and packed(STORED) is None and packed(()) is None
    with pytest.raises(ConfigError, match="packed as I32"):
        shape_of_stored(quantized, "q")
    assert with_stored(read(), quantized, "q").parameters == read().parameters
    unknown = with_stored(read({"model_type": "brandnew"}), quantized, "q")
    assert not unknown.exact and "not known" in unknown.notes[-1]


@pytest.mark.parametrize("stored", [(), STORED[1:3], STORED[:1]])
def test_tensors_that_show_no_transformer(stored: tuple[Stored, ...]) -> None:
    with pytest.raises(ConfigError):
        shape_of_stored(stored, "x")
