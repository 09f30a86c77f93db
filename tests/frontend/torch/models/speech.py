"""Speech and audio models of the transformers library."""

from __future__ import annotations

from typing import Any

import transformers as T

from tests.frontend.torch.models import Only, ids, model, normal

WAVE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 30,
    "conv_dim": [16, 16, 16],
    "conv_stride": [5, 2, 2],
    "conv_kernel": [10, 3, 3],
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "pad_token_id": 0,
}


def _wave(name: str, config: Any, head: str, fast: bool = False, **extra: Any) -> None:
    @model(name, fast)
    def _build() -> Any:
        module = getattr(T, head)(config(**{**WAVE, **extra}))
        out = "logits" if "CTC" in head else "last_hidden_state"
        return Only(module, out), {"input_values": normal(2, 400)}, {"input_values": {0: "batch", 1: "samples"}}


_wave("wav2vec2", T.Wav2Vec2Config, "Wav2Vec2ForCTC")
_wave("hubert", T.HubertConfig, "HubertForCTC")
_wave("unispeech", T.UniSpeechConfig, "UniSpeechForCTC")
_wave("data2vec-audio", T.Data2VecAudioConfig, "Data2VecAudioForCTC", conv_pos_kernel_size=3)
_wave("sew", T.SEWConfig, "SEWForCTC", squeeze_factor=2)
_wave("wavlm", T.WavLMConfig, "WavLMForCTC", num_buckets=8, max_bucket_distance=16)
_wave("wav2vec2-conformer", T.Wav2Vec2ConformerConfig, "Wav2Vec2ConformerForCTC", conv_depthwise_kernel_size=3)


@model("whisper")
def _whisper() -> Any:
    config = T.WhisperConfig(
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        num_mel_bins=8,
        max_source_positions=10,
        max_target_positions=12,
        vocab_size=99,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        use_cache=False,
    )
    module = Only(T.WhisperForConditionalGeneration(config), "logits")
    return module, {"input_features": normal(2, 8, 20), "decoder_input_ids": ids(2, 5)}


@model("speech-to-text")
def _speech_to_text() -> Any:
    config = T.Speech2TextConfig(
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        input_feat_per_channel=8,
        conv_channels=16,
        max_source_positions=40,
        max_target_positions=12,
        vocab_size=99,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        use_cache=False,
    )
    module = Only(T.Speech2TextForConditionalGeneration(config), "logits")
    return (
        module,
        {"input_features": normal(2, 24, 8), "decoder_input_ids": ids(2, 5)},
        {"input_features": {0: "batch", 1: "frames"}},
    )


@model("audio-spectrogram-transformer")
def _ast() -> Any:
    config = T.ASTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        patch_size=4,
        frequency_stride=4,
        time_stride=4,
        max_length=16,
        num_mel_bins=8,
        num_labels=5,
    )
    return Only(T.ASTForAudioClassification(config), "logits"), {"input_values": normal(2, 16, 8)}


@model("vits-hifigan")
def _hifigan() -> Any:
    config = T.SpeechT5HifiGanConfig(
        model_in_dim=8,
        upsample_initial_channel=16,
        upsample_rates=[4, 2],
        upsample_kernel_sizes=[8, 4],
        resblock_kernel_sizes=[3],
        resblock_dilation_sizes=[[1, 3]],
        normalize_before=False,
    )
    return T.SpeechT5HifiGan(config), {"spectrogram": normal(2, 6, 8)}
