"""Language models of the transformers library."""

from __future__ import annotations

import re
from typing import Any

import torch
import transformers as T

from tests.frontend.torch.models import Only, ids, model

SMALL: dict[str, Any] = {
    "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def _chosen(extra: dict[str, Any]) -> dict[str, Any]:
    """The small configuration with changes; None leaves an entry out."""
    return {k: v for k, v in {**SMALL, **extra}.items() if v is not None}


def _encoder(name: str, config: Any, head: str, fast: bool = False, **extra: Any) -> None:
    @model(name, fast)
    def _build() -> Any:
        module = getattr(T, head)(config(**_chosen(extra)))
        return (
            Only(module, "logits" if re.search("For[A-Z]", head) else "last_hidden_state"),
            {"input_ids": ids(2, 9)},
        )


_encoder("bert", T.BertConfig, "BertForSequenceClassification", fast=True)
_encoder("bert-token", T.BertConfig, "BertForTokenClassification")
_encoder("roberta", T.RobertaConfig, "RobertaForMaskedLM")
_encoder("xlm-roberta", T.XLMRobertaConfig, "XLMRobertaModel")
_encoder("electra", T.ElectraConfig, "ElectraModel", embedding_size=16)
_encoder("albert", T.AlbertConfig, "AlbertModel", embedding_size=16)
_encoder("distilbert", T.DistilBertConfig, "DistilBertModel", dim=32, hidden_dim=48, n_heads=4, n_layers=2)
_encoder(
    "deberta-v2",
    T.DebertaV2Config,
    "DebertaV2Model",
    relative_attention=True,
    pos_att_type=["p2c", "c2p"],
    position_buckets=8,
)
_encoder("deberta", T.DebertaConfig, "DebertaModel", relative_attention=True, pos_att_type=["p2c", "c2p"])
_encoder("mpnet", T.MPNetConfig, "MPNetModel")
_encoder("camembert", T.CamembertConfig, "CamembertModel")
_encoder("convbert", T.ConvBertConfig, "ConvBertModel", embedding_size=32)
_encoder("squeezebert", T.SqueezeBertConfig, "SqueezeBertModel", embedding_size=32)
_encoder(
    "mobilebert",
    T.MobileBertConfig,
    "MobileBertModel",
    intra_bottleneck_size=16,
    embedding_size=16,
    true_hidden_size=16,
    num_attention_heads=4,
)
_encoder(
    "modernbert",
    T.ModernBertConfig,
    "ModernBertModel",
    global_attn_every_n_layers=2,
    local_attention=8,
    reference_compile=False,
    cls_token_id=1,
    sep_token_id=2,
)
_encoder("fnet", T.FNetConfig, "FNetModel")
_encoder(
    "funnel",
    T.FunnelConfig,
    "FunnelBaseModel",
    num_hidden_layers=None,
    d_model=32,
    n_head=4,
    d_head=8,
    d_inner=48,
    block_sizes=[1, 1],
    num_decoder_layers=1,
)
_encoder("roformer", T.RoFormerConfig, "RoFormerModel")
_encoder("ernie", T.ErnieConfig, "ErnieModel")
_encoder("layoutlm", T.LayoutLMConfig, "LayoutLMModel")
_encoder("mra-ibert", T.IBertConfig, "IBertModel")
_encoder(
    "esm",
    T.EsmConfig,
    "EsmModel",
    position_embedding_type="rotary",
    mask_token_id=3,
    token_dropout=False,
)


def _decoder(name: str, config: Any, head: str, fast: bool = False, **extra: Any) -> None:
    @model(name, fast)
    def _build() -> Any:
        c = config(**{**SMALL, "use_cache": False, **extra})
        return Only(getattr(T, head)(c), "logits"), {"input_ids": ids(2, 9)}


ROPE: dict[str, Any] = {"num_key_value_heads": 2, "head_dim": 8}
_decoder("gpt2", T.GPT2Config, "GPT2LMHeadModel", n_embd=32, n_layer=2, n_head=4, n_positions=64)
_decoder(
    "gpt-neo",
    T.GPTNeoConfig,
    "GPTNeoForCausalLM",
    num_layers=2,
    num_heads=4,
    attention_types=[[["global", "local"], 1]],
    window_size=4,
)
_decoder("gpt-neox", T.GPTNeoXConfig, "GPTNeoXForCausalLM")
_decoder("gptj", T.GPTJConfig, "GPTJForCausalLM", n_embd=32, n_layer=2, n_head=4, rotary_dim=8, n_positions=64)
_decoder("opt", T.OPTConfig, "OPTForCausalLM", ffn_dim=48, word_embed_proj_dim=32)
_decoder("bloom", T.BloomConfig, "BloomForCausalLM", n_layer=2, n_head=4)
_decoder("llama", T.LlamaConfig, "LlamaForCausalLM", **ROPE)
_decoder("mistral", T.MistralConfig, "MistralForCausalLM", sliding_window=4, **ROPE)
_decoder(
    "mixtral",
    T.MixtralConfig,
    "MixtralForCausalLM",
    num_local_experts=4,
    num_experts_per_tok=2,
    experts_implementation="batched_mm",
    **ROPE,
)
_decoder("qwen2", T.Qwen2Config, "Qwen2ForCausalLM", **ROPE)
_decoder("qwen3", T.Qwen3Config, "Qwen3ForCausalLM", **ROPE)
_decoder("gemma", T.GemmaConfig, "GemmaForCausalLM", **ROPE)
_decoder("gemma2", T.Gemma2Config, "Gemma2ForCausalLM", query_pre_attn_scalar=8, sliding_window=4, **ROPE)
_decoder("gemma3", T.Gemma3TextConfig, "Gemma3ForCausalLM", query_pre_attn_scalar=8, sliding_window=4, **ROPE)
_decoder("phi", T.PhiConfig, "PhiForCausalLM", partial_rotary_factor=0.5)
_decoder("phi3", T.Phi3Config, "Phi3ForCausalLM", num_key_value_heads=2)
_decoder("falcon", T.FalconConfig, "FalconForCausalLM")
_decoder("stablelm", T.StableLmConfig, "StableLmForCausalLM", num_key_value_heads=2, partial_rotary_factor=0.5)
_decoder("olmo", T.OlmoConfig, "OlmoForCausalLM", num_key_value_heads=2)
_decoder("cohere", T.CohereConfig, "CohereForCausalLM", num_key_value_heads=2)
_decoder("granite", T.GraniteConfig, "GraniteForCausalLM", num_key_value_heads=2)
_decoder("mpt", T.MptConfig, "MptForCausalLM", d_model=32, n_heads=4, n_layers=2, max_seq_len=64)
_decoder("starcoder2", T.Starcoder2Config, "Starcoder2ForCausalLM", num_key_value_heads=2)
_decoder("mamba", T.MambaConfig, "MambaForCausalLM", state_size=4, conv_kernel=4, time_step_rank=4)
_decoder(
    "mamba2",
    T.Mamba2Config,
    "Mamba2ForCausalLM",
    state_size=8,
    num_heads=4,
    head_dim=16,
    n_groups=1,
    chunk_size=4,
)
_decoder("falcon-mamba", T.FalconMambaConfig, "FalconMambaForCausalLM", state_size=4, time_step_rank=4)
_decoder("rwkv", T.RwkvConfig, "RwkvForCausalLM", attention_hidden_size=32, context_length=64, rescale_every=0)
_decoder(
    "recurrent-gemma",
    T.RecurrentGemmaConfig,
    "RecurrentGemmaForCausalLM",
    lru_width=32,
    attention_window_size=8,
    **ROPE,
)


class Cached(torch.nn.Module):
    """One step of a decoder that takes the keys and values of what came before, and gives them with the new ones."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(
        self,
        input_ids: torch.Tensor,
        keys0: torch.Tensor,
        values0: torch.Tensor,
        keys1: torch.Tensor,
        values1: torch.Tensor,
    ) -> Any:
        cache = T.DynamicCache([(keys0, values0), (keys1, values1)])
        out = self.inner(input_ids=input_ids, past_key_values=cache, use_cache=True)
        kept = [t for layer in out.past_key_values.layers for t in (layer.keys, layer.values)]
        return (out.logits, *kept)


def _cached(name: str, config: Any, head: str, heads: int, depth: int, fast: bool = False, **extra: Any) -> None:
    @model(name, fast)
    def _build() -> Any:
        module = Cached(getattr(T, head)(config(**{**SMALL, **extra})))
        past = {name: torch.randn(2, heads, 5, depth) for name in ("keys0", "values0", "keys1", "values1")}
        return (
            module,
            {"input_ids": ids(2, 1), **past},
            {"input_ids": {0: "batch"}} | dict.fromkeys(past, {0: "batch", 2: "past"}),
        )


_cached("gpt2-cache", T.GPT2Config, "GPT2LMHeadModel", 4, 8, n_embd=32, n_layer=2, n_head=4, n_positions=64)
_cached("llama-cache", T.LlamaConfig, "LlamaForCausalLM", 2, 8, fast=True, **ROPE)
_cached("qwen2-cache", T.Qwen2Config, "Qwen2ForCausalLM", 2, 8, **ROPE)


def _pair(name: str, config: Any, head: str, **extra: Any) -> None:
    @model(name)
    def _build() -> Any:
        c = config(**_chosen({"use_cache": False, "decoder_start_token_id": 1, **extra}))
        inputs = {"input_ids": ids(2, 9), "decoder_input_ids": ids(2, 5)}
        return Only(getattr(T, head)(c), "logits"), inputs


LAYERS: dict[str, Any] = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
}  # fmt: skip
T5: dict[str, Any] = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
_pair("t5", T.T5Config, "T5ForConditionalGeneration", **T5)
_pair("mt5", T.MT5Config, "MT5ForConditionalGeneration", **T5)
_pair("bart", T.BartConfig, "BartForConditionalGeneration", **LAYERS)
_pair("mbart", T.MBartConfig, "MBartForConditionalGeneration", **LAYERS)
_pair("pegasus", T.PegasusConfig, "PegasusForConditionalGeneration", **LAYERS)
_pair("marian", T.MarianConfig, "MarianMTModel", **LAYERS)
_pair("m2m-100", T.M2M100Config, "M2M100ForConditionalGeneration", **LAYERS)
_pair("blenderbot", T.BlenderbotConfig, "BlenderbotForConditionalGeneration", **LAYERS)
_pair(
    "prophetnet",
    T.ProphetNetConfig,
    "ProphetNetForConditionalGeneration",
    num_hidden_layers=None,
    num_encoder_layers=2,
    num_decoder_layers=2,
    num_encoder_attention_heads=4,
    num_decoder_attention_heads=4,
    encoder_ffn_dim=48,
    decoder_ffn_dim=48,
)
