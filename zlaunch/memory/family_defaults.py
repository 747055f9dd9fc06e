"""The defaults of the config of each family: what a config.json means where it is silent.

From the config classes of transformers 5.24, as far as they decide about memory; what a class
works out from other keys (`head_dim`) is left out. A test holds them to the classes.
"""

from __future__ import annotations

from typing import Any

_TABLE = """
llama: vocab_size=32000 hidden_size=4096 num_hidden_layers=32 num_attention_heads=32
  intermediate_size=11008 max_position_embeddings=2048 tie_word_embeddings=false hidden_act=silu
granite: vocab_size=32000 hidden_size=4096 num_hidden_layers=32 num_attention_heads=32
  intermediate_size=11008 max_position_embeddings=2048 tie_word_embeddings=false hidden_act=silu
smollm3: vocab_size=128256 hidden_size=2048 num_hidden_layers=36 num_attention_heads=16
  num_key_value_heads=4 intermediate_size=11008 max_position_embeddings=32768
  tie_word_embeddings=true hidden_act=silu
seed_oss: vocab_size=155136 hidden_size=4096 num_hidden_layers=64 num_attention_heads=80
  num_key_value_heads=8 head_dim=128 intermediate_size=27648 max_position_embeddings=524288
  tie_word_embeddings=false hidden_act=silu attention_dropout=0.1 attention_bias=true
ernie4_5: vocab_size=103424 hidden_size=1024 num_hidden_layers=18 num_attention_heads=16
  num_key_value_heads=2 head_dim=128 intermediate_size=3072 max_position_embeddings=131072
  tie_word_embeddings=true hidden_act=silu
arcee: vocab_size=32000 hidden_size=2560 num_hidden_layers=32 num_attention_heads=32
  intermediate_size=18432 max_position_embeddings=4096 tie_word_embeddings=false hidden_act=relu2
mistral: vocab_size=32000 hidden_size=4096 num_hidden_layers=32 num_attention_heads=32
  num_key_value_heads=8 intermediate_size=14336 max_position_embeddings=131072
  tie_word_embeddings=false hidden_act=silu
qwen2: vocab_size=151936 hidden_size=4096 num_hidden_layers=32 num_attention_heads=32
  num_key_value_heads=32 intermediate_size=22016 max_position_embeddings=32768
  tie_word_embeddings=false hidden_act=silu
qwen3: vocab_size=151936 hidden_size=4096 num_hidden_layers=32 num_attention_heads=32
  num_key_value_heads=32 head_dim=128 intermediate_size=22016 max_position_embeddings=32768
  tie_word_embeddings=false hidden_act=silu
hunyuan_v1_dense: vocab_size=290943 hidden_size=4096 num_hidden_layers=32 num_attention_heads=32
  intermediate_size=11008 max_position_embeddings=2048 tie_word_embeddings=false hidden_act=silu
exaone4: vocab_size=102400 hidden_size=4096 num_hidden_layers=32 num_attention_heads=32
  num_key_value_heads=32 intermediate_size=16384 max_position_embeddings=2048
  tie_word_embeddings=false hidden_act=silu
glm: vocab_size=151552 hidden_size=4096 num_hidden_layers=40 num_attention_heads=32
  num_key_value_heads=2 head_dim=128 intermediate_size=13696 max_position_embeddings=131072
  tie_word_embeddings=false hidden_act=silu attention_bias=true
glm4: vocab_size=151552 hidden_size=4096 num_hidden_layers=40 num_attention_heads=32
  num_key_value_heads=2 head_dim=128 intermediate_size=13696 max_position_embeddings=131072
  tie_word_embeddings=false hidden_act=silu attention_bias=true
gemma: vocab_size=256000 hidden_size=3072 num_hidden_layers=28 num_attention_heads=16
  num_key_value_heads=16 head_dim=256 intermediate_size=24576 max_position_embeddings=8192
  tie_word_embeddings=true hidden_act=gelu_pytorch_tanh
gemma2: vocab_size=256000 hidden_size=2304 num_hidden_layers=26 num_attention_heads=8
  num_key_value_heads=4 head_dim=256 intermediate_size=9216 max_position_embeddings=8192
  tie_word_embeddings=true hidden_activation=gelu_pytorch_tanh
gemma3_text: vocab_size=262208 hidden_size=2304 num_hidden_layers=26 num_attention_heads=8
  num_key_value_heads=4 head_dim=256 intermediate_size=9216 max_position_embeddings=131072
  tie_word_embeddings=true hidden_activation=gelu_pytorch_tanh
phi: vocab_size=51200 hidden_size=2048 num_hidden_layers=24 num_attention_heads=32
  intermediate_size=8192 max_position_embeddings=2048 tie_word_embeddings=false hidden_act=gelu_new
phi3: vocab_size=32064 hidden_size=3072 num_hidden_layers=32 num_attention_heads=32
  intermediate_size=8192 max_position_embeddings=4096 tie_word_embeddings=false hidden_act=silu
stablelm: vocab_size=50304 hidden_size=2560 num_hidden_layers=32 num_attention_heads=32
  num_key_value_heads=32 intermediate_size=6912 max_position_embeddings=4096
  tie_word_embeddings=false hidden_act=silu
persimmon: vocab_size=262144 hidden_size=4096 num_hidden_layers=36 num_attention_heads=64
  intermediate_size=16384 max_position_embeddings=16384 tie_word_embeddings=false hidden_act=relu2
  qk_layernorm=true
nemotron: vocab_size=256000 hidden_size=6144 num_hidden_layers=32 num_attention_heads=48
  intermediate_size=24576 max_position_embeddings=4096 tie_word_embeddings=false hidden_act=relu2
gpt2: vocab_size=50257 n_embd=768 n_layer=12 n_head=12 n_positions=1024 tie_word_embeddings=true
  activation_function=gelu_new resid_pdrop=0.1 attn_pdrop=0.1
gpt_bigcode: vocab_size=50257 n_embd=768 n_layer=12 n_head=12 num_key_value_heads=1 n_positions=1024
  tie_word_embeddings=true activation_function=gelu_pytorch_tanh resid_pdrop=0.1 attn_pdrop=0.1
  multi_query=true
gpt_neo: vocab_size=50257 hidden_size=2048 num_layers=24 num_heads=16 max_position_embeddings=2048
  tie_word_embeddings=true activation_function=gelu_new
gptj: vocab_size=50400 n_embd=4096 n_layer=28 n_head=16 n_positions=2048 tie_word_embeddings=false
  activation_function=gelu_new
codegen: vocab_size=50400 n_embd=4096 n_layer=28 n_head=16 n_positions=2048 n_ctx=2048
  tie_word_embeddings=false activation_function=gelu_new
gpt_neox: vocab_size=50432 hidden_size=6144 num_hidden_layers=44 num_attention_heads=64
  intermediate_size=24576 max_position_embeddings=2048 tie_word_embeddings=false hidden_act=gelu
  attention_bias=true use_parallel_residual=true
falcon: vocab_size=65024 hidden_size=4544 num_hidden_layers=32 num_attention_heads=71
  max_position_embeddings=2048 tie_word_embeddings=true multi_query=true parallel_attn=true
mpt: vocab_size=50368 d_model=2048 n_layers=24 n_heads=16 max_seq_len=2048
  tie_word_embeddings=true
opt: vocab_size=50272 hidden_size=768 num_hidden_layers=12 num_attention_heads=12 ffn_dim=3072
  max_position_embeddings=2048 tie_word_embeddings=true activation_function=relu dropout=0.1
  do_layer_norm_before=true
xglm: vocab_size=256008 d_model=1024 num_layers=24 attention_heads=16 ffn_dim=4096
  max_position_embeddings=2048 tie_word_embeddings=true activation_function=gelu
  attention_dropout=0.1 dropout=0.1
biogpt: vocab_size=42384 hidden_size=1024 num_hidden_layers=24 num_attention_heads=16
  intermediate_size=4096 max_position_embeddings=1024 tie_word_embeddings=true hidden_act=gelu
  hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1
bloom: vocab_size=250880 hidden_size=64 n_layer=2 n_head=8 tie_word_embeddings=true
starcoder2: vocab_size=49152 hidden_size=3072 num_hidden_layers=30 num_attention_heads=24
  num_key_value_heads=2 intermediate_size=12288 max_position_embeddings=4096
  tie_word_embeddings=true hidden_act=gelu_pytorch_tanh use_bias=true
cohere: vocab_size=256000 hidden_size=8192 num_hidden_layers=40 num_attention_heads=64
  intermediate_size=22528 max_position_embeddings=8192 tie_word_embeddings=true hidden_act=silu
cohere2: vocab_size=256000 hidden_size=8192 num_hidden_layers=40 num_attention_heads=64 head_dim=128
  intermediate_size=22528 max_position_embeddings=8192 tie_word_embeddings=true hidden_act=silu
olmo: vocab_size=50304 hidden_size=4096 num_hidden_layers=32 num_attention_heads=32
  intermediate_size=11008 max_position_embeddings=2048 tie_word_embeddings=false hidden_act=silu
olmo2: vocab_size=50304 hidden_size=4096 num_hidden_layers=32 num_attention_heads=32
  intermediate_size=11008 max_position_embeddings=2048 tie_word_embeddings=false hidden_act=silu
olmo3: vocab_size=50304 hidden_size=4096 num_hidden_layers=32 num_attention_heads=32
  intermediate_size=11008 max_position_embeddings=2048 tie_word_embeddings=false hidden_act=silu
mixtral: vocab_size=32000 hidden_size=4096 num_hidden_layers=32 num_attention_heads=32
  num_key_value_heads=8 intermediate_size=14336 max_position_embeddings=131072
  tie_word_embeddings=false hidden_act=silu num_local_experts=8 num_experts_per_tok=2
qwen2_moe: vocab_size=151936 hidden_size=2048 num_hidden_layers=24 num_attention_heads=16
  num_key_value_heads=16 intermediate_size=5632 max_position_embeddings=32768
  tie_word_embeddings=false hidden_act=silu qkv_bias=true num_experts=60 num_experts_per_tok=4
  moe_intermediate_size=1408 shared_expert_intermediate_size=5632 decoder_sparse_step=1
qwen3_moe: vocab_size=151936 hidden_size=2048 num_hidden_layers=24 num_attention_heads=32
  num_key_value_heads=4 intermediate_size=6144 max_position_embeddings=32768
  tie_word_embeddings=false hidden_act=silu num_local_experts=128 num_experts_per_tok=8
  moe_intermediate_size=768 decoder_sparse_step=1
glm4_moe: vocab_size=151552 hidden_size=4096 num_hidden_layers=46 num_attention_heads=96
  num_key_value_heads=8 intermediate_size=10944 max_position_embeddings=131072
  tie_word_embeddings=false hidden_act=silu n_routed_experts=128 num_experts_per_tok=8
  moe_intermediate_size=1408 n_shared_experts=1 first_k_dense_replace=1
olmoe: vocab_size=50304 hidden_size=2048 num_hidden_layers=16 num_attention_heads=16
  intermediate_size=2048 max_position_embeddings=4096 tie_word_embeddings=false hidden_act=silu
  num_experts=64 num_experts_per_tok=8
granitemoe: vocab_size=32000 hidden_size=4096 num_hidden_layers=32 num_attention_heads=32
  intermediate_size=11008 max_position_embeddings=2048 tie_word_embeddings=false hidden_act=silu
  num_local_experts=8 num_experts_per_tok=2
phimoe: vocab_size=32064 hidden_size=4096 num_hidden_layers=32 num_attention_heads=32
  num_key_value_heads=8 intermediate_size=6400 max_position_embeddings=131072
  tie_word_embeddings=false hidden_act=silu num_local_experts=16 num_experts_per_tok=2
gpt_oss: vocab_size=201088 hidden_size=2880 num_hidden_layers=36 num_attention_heads=64
  num_key_value_heads=8 head_dim=64 intermediate_size=2880 max_position_embeddings=131072
  tie_word_embeddings=false hidden_act=silu attention_bias=true num_local_experts=128
  num_experts_per_tok=4
llama4_text: vocab_size=202048 hidden_size=5120 num_hidden_layers=48 num_attention_heads=40
  num_key_value_heads=8 head_dim=128 intermediate_size=8192 intermediate_size_mlp=16384
  max_position_embeddings=131072 tie_word_embeddings=false hidden_act=silu use_qk_norm=true
  num_local_experts=16 num_experts_per_tok=1 interleave_moe_layer_step=1
deepseek_v2: vocab_size=102400 hidden_size=4096 num_hidden_layers=32 num_attention_heads=32
  intermediate_size=11008 max_position_embeddings=2048 tie_word_embeddings=false hidden_act=silu
  n_routed_experts=64 moe_intermediate_size=1407 n_shared_experts=2 q_lora_rank=1536
  kv_lora_rank=512 qk_rope_head_dim=64 qk_nope_head_dim=128 v_head_dim=128
deepseek_v3: vocab_size=129280 hidden_size=7168 num_hidden_layers=61 num_attention_heads=128
  num_key_value_heads=128 head_dim=64 intermediate_size=18432 max_position_embeddings=4096
  tie_word_embeddings=false hidden_act=silu n_routed_experts=256 num_experts_per_tok=8
  moe_intermediate_size=2048 n_shared_experts=1 first_k_dense_replace=3 q_lora_rank=1536
  kv_lora_rank=512 qk_rope_head_dim=64 qk_nope_head_dim=128 v_head_dim=128
bert: vocab_size=30522 hidden_size=768 num_hidden_layers=12 num_attention_heads=12
  intermediate_size=3072 max_position_embeddings=512 tie_word_embeddings=true hidden_act=gelu
  hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1 type_vocab_size=2
roberta: vocab_size=50265 hidden_size=768 num_hidden_layers=12 num_attention_heads=12
  intermediate_size=3072 max_position_embeddings=512 tie_word_embeddings=true hidden_act=gelu
  hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1 type_vocab_size=2
xlm-roberta: vocab_size=30522 hidden_size=768 num_hidden_layers=12 num_attention_heads=12
  intermediate_size=3072 max_position_embeddings=512 tie_word_embeddings=true hidden_act=gelu
  hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1 type_vocab_size=2
camembert: vocab_size=30522 hidden_size=768 num_hidden_layers=12 num_attention_heads=12
  intermediate_size=3072 max_position_embeddings=512 tie_word_embeddings=true hidden_act=gelu
  hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1 type_vocab_size=2
data2vec-text: vocab_size=30522 hidden_size=768 num_hidden_layers=12 num_attention_heads=12
  intermediate_size=3072 max_position_embeddings=512 tie_word_embeddings=true hidden_act=gelu
  hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1 type_vocab_size=2
mpnet: vocab_size=30527 hidden_size=768 num_hidden_layers=12 num_attention_heads=12
  intermediate_size=3072 max_position_embeddings=512 tie_word_embeddings=true hidden_act=gelu
  hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1 relative_attention_num_buckets=32
distilbert: vocab_size=30522 n_layers=6 n_heads=12 max_position_embeddings=512
  tie_word_embeddings=true attention_dropout=0.1 dropout=0.1
electra: vocab_size=30522 hidden_size=256 num_hidden_layers=12 num_attention_heads=4
  intermediate_size=1024 max_position_embeddings=512 tie_word_embeddings=true hidden_act=gelu
  hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1 embedding_size=128 type_vocab_size=2
longformer: vocab_size=30522 hidden_size=768 num_hidden_layers=12 num_attention_heads=12
  intermediate_size=3072 max_position_embeddings=512 tie_word_embeddings=true hidden_act=gelu
  hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1 type_vocab_size=2
albert: vocab_size=30000 hidden_size=4096 num_hidden_layers=12 num_attention_heads=64
  intermediate_size=16384 max_position_embeddings=512 tie_word_embeddings=true hidden_act=gelu_new
  embedding_size=128 type_vocab_size=2 num_hidden_groups=1 inner_group_num=1
deberta-v2: vocab_size=128100 hidden_size=1536 num_hidden_layers=24 num_attention_heads=24
  intermediate_size=6144 max_position_embeddings=512 tie_word_embeddings=true hidden_act=gelu
  hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1 position_biased_input=true
  max_relative_positions=-1
t5: vocab_size=32128 d_model=512 num_layers=6 num_heads=8 d_kv=64 d_ff=2048 tie_word_embeddings=true
  feed_forward_proj=relu dropout_rate=0.1 relative_attention_num_buckets=32
mt5: vocab_size=250112 d_model=512 num_layers=8 num_heads=6 d_kv=64 d_ff=1024
  tie_word_embeddings=true feed_forward_proj=gated-gelu dropout_rate=0.1
  relative_attention_num_buckets=32
umt5: vocab_size=250112 d_model=512 num_layers=8 num_heads=6 d_kv=64 d_ff=1024
  tie_word_embeddings=true feed_forward_proj=gated-gelu dropout_rate=0.1
  relative_attention_num_buckets=32
longt5: vocab_size=32128 d_model=512 num_layers=6 num_heads=8 d_kv=64 d_ff=2048
  tie_word_embeddings=true feed_forward_proj=relu dropout_rate=0.1 relative_attention_num_buckets=32
bart: vocab_size=50265 d_model=1024 encoder_layers=12 decoder_layers=12 encoder_attention_heads=16
  decoder_attention_heads=16 encoder_ffn_dim=4096 decoder_ffn_dim=4096 max_position_embeddings=1024
  tie_word_embeddings=true activation_function=gelu dropout=0.1
plbart: vocab_size=50005 d_model=768 encoder_layers=6 decoder_layers=6 encoder_attention_heads=12
  decoder_attention_heads=12 encoder_ffn_dim=3072 decoder_ffn_dim=3072 max_position_embeddings=1024
  tie_word_embeddings=true activation_function=gelu attention_dropout=0.1 dropout=0.1
mvp: vocab_size=50267 d_model=1024 encoder_layers=12 decoder_layers=12 encoder_attention_heads=16
  decoder_attention_heads=16 encoder_ffn_dim=4096 decoder_ffn_dim=4096 max_position_embeddings=1024
  tie_word_embeddings=true activation_function=gelu dropout=0.1
blenderbot-small: vocab_size=50265 d_model=512 encoder_layers=8 decoder_layers=8
  encoder_attention_heads=16 decoder_attention_heads=16 encoder_ffn_dim=2048 decoder_ffn_dim=2048
  max_position_embeddings=512 tie_word_embeddings=true activation_function=gelu dropout=0.1
mbart: vocab_size=50265 d_model=1024 encoder_layers=12 decoder_layers=12 encoder_attention_heads=16
  decoder_attention_heads=16 encoder_ffn_dim=4096 decoder_ffn_dim=4096 max_position_embeddings=1024
  tie_word_embeddings=true activation_function=gelu dropout=0.1
blenderbot: vocab_size=8008 d_model=2560 encoder_layers=2 decoder_layers=24
  encoder_attention_heads=32 decoder_attention_heads=32 encoder_ffn_dim=10240 decoder_ffn_dim=10240
  max_position_embeddings=128 tie_word_embeddings=true activation_function=gelu dropout=0.1
pegasus: vocab_size=50265 d_model=1024 encoder_layers=12 decoder_layers=12
  encoder_attention_heads=16 decoder_attention_heads=16 encoder_ffn_dim=4096 decoder_ffn_dim=4096
  max_position_embeddings=1024 tie_word_embeddings=true activation_function=gelu dropout=0.1
m2m_100: vocab_size=128112 d_model=1024 encoder_layers=12 decoder_layers=12
  encoder_attention_heads=16 decoder_attention_heads=16 encoder_ffn_dim=4096 decoder_ffn_dim=4096
  max_position_embeddings=1024 tie_word_embeddings=true activation_function=relu
  attention_dropout=0.1 dropout=0.1
marian: vocab_size=58101 d_model=1024 encoder_layers=12 decoder_layers=12 encoder_attention_heads=16
  decoder_attention_heads=16 encoder_ffn_dim=4096 decoder_ffn_dim=4096 max_position_embeddings=1024
  tie_word_embeddings=true activation_function=gelu dropout=0.1
whisper: vocab_size=51865 d_model=384 encoder_layers=4 decoder_layers=4 encoder_attention_heads=6
  decoder_attention_heads=6 encoder_ffn_dim=1536 decoder_ffn_dim=1536 max_source_positions=1500
  max_target_positions=448 tie_word_embeddings=true activation_function=gelu num_mel_bins=80
qwen2_vl_text: vocab_size=152064 hidden_size=8192 num_hidden_layers=80 num_attention_heads=64
  num_key_value_heads=8 intermediate_size=29568 max_position_embeddings=32768 hidden_act=silu
qwen2_5_vl_text: vocab_size=152064 hidden_size=8192 num_hidden_layers=80 num_attention_heads=64
  num_key_value_heads=8 intermediate_size=29568 max_position_embeddings=32768 hidden_act=silu
ministral: vocab_size=32000 hidden_size=4096 num_hidden_layers=32 num_attention_heads=32
  num_key_value_heads=8 intermediate_size=14336 max_position_embeddings=131072
  tie_word_embeddings=false hidden_act=silu
vit: hidden_size=768 num_hidden_layers=12 num_attention_heads=12 intermediate_size=3072
  hidden_act=gelu qkv_bias=true image_size=224 patch_size=16 num_channels=3
vit_msn: hidden_size=768 num_hidden_layers=12 num_attention_heads=12 intermediate_size=3072
  hidden_act=gelu qkv_bias=true image_size=224 patch_size=16 num_channels=3
deit: hidden_size=768 num_hidden_layers=12 num_attention_heads=12 intermediate_size=3072
  hidden_act=gelu qkv_bias=true image_size=224 patch_size=16 num_channels=3
clip_text_model: vocab_size=49408 hidden_size=512 num_hidden_layers=12 num_attention_heads=8
  intermediate_size=2048 max_position_embeddings=77 hidden_act=quick_gelu projection_dim=512
clip_vision_model: hidden_size=768 num_hidden_layers=12 num_attention_heads=12
  intermediate_size=3072 hidden_act=quick_gelu image_size=224 patch_size=32 num_channels=3
  projection_dim=512
siglip_text_model: vocab_size=32000 hidden_size=768 num_hidden_layers=12 num_attention_heads=12
  intermediate_size=3072 max_position_embeddings=64 hidden_act=gelu_pytorch_tanh
siglip_vision_model: hidden_size=768 num_hidden_layers=12 num_attention_heads=12
  intermediate_size=3072 hidden_act=gelu_pytorch_tanh image_size=224 patch_size=16 num_channels=3
  vision_use_head=true
qwen2_vl_vision: hidden_size=3584 depth=32 num_heads=16 mlp_ratio=4 hidden_act=quick_gelu
  patch_size=14 in_channels=3 embed_dim=1280 spatial_merge_size=2 temporal_patch_size=2
qwen2_5_vl_vision: hidden_size=3584 depth=32 num_heads=16 intermediate_size=3420 hidden_act=silu
  patch_size=14 in_channels=3 spatial_merge_size=2 temporal_patch_size=2 out_hidden_size=3584
llama4_vision_model: hidden_size=768 num_hidden_layers=34 num_attention_heads=16
  intermediate_size=5632 hidden_act=gelu image_size=448 patch_size=14 num_channels=3
  projector_input_dim=4096 projector_output_dim=4096 vision_output_dim=7680
qwen2_vl: tie_word_embeddings=false
qwen2_5_vl: tie_word_embeddings=false
gemma3: tie_word_embeddings=true
llava: tie_word_embeddings=false
llava_next: tie_word_embeddings=false
paligemma: tie_word_embeddings=true projection_dim=2048
llama4: tie_word_embeddings=false
"""


def _value(text: str) -> Any:
    """A number, true or false, or a word."""
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def _rows() -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    row: dict[str, Any] = {}
    for word in _TABLE.split():
        key, equals, text = word.partition("=")
        if equals:
            row[key] = _value(text)
        else:
            row = rows.setdefault(word.rstrip(":"), {})
    return rows


DEFAULTS = _rows()
