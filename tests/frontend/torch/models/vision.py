"""Vision models of the transformers library: classification, detection, segmentation, depth, text and images."""

from __future__ import annotations

from typing import Any

import torch
import transformers as T

from tests.frontend.torch.models import Only, ids, lively, model, normal

VIT: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": 32,
    "patch_size": 8,
    "num_labels": 7,
}


def _classifier(name: str, config: Any, head: str, size: int = 32, fast: bool = False, **extra: Any) -> None:
    @model(name, fast)
    def _build() -> Any:
        out = "logits" if "For" in head else "last_hidden_state"
        module = lively(getattr(T, head)(config(**extra)))
        return Only(module, out), {"pixel_values": normal(2, 3, size, size)}


_classifier("vit", T.ViTConfig, "ViTForImageClassification", **VIT)
_classifier("deit", T.DeiTConfig, "DeiTForImageClassification", **VIT)
_classifier("beit", T.BeitConfig, "BeitForImageClassification", use_relative_position_bias=True, **VIT)
_classifier("dinov2", T.Dinov2Config, "Dinov2ForImageClassification", **VIT)
_classifier("vit-msn", T.ViTMSNConfig, "ViTMSNForImageClassification", **VIT)
_classifier("dinov2-registers", T.Dinov2WithRegistersConfig, "Dinov2WithRegistersForImageClassification", **VIT)
_classifier("ijepa", T.IJepaConfig, "IJepaForImageClassification", **VIT)
_classifier(
    "resnet",
    T.ResNetConfig,
    "ResNetForImageClassification",
    fast=True,
    embedding_size=8,
    hidden_sizes=[8, 16],
    depths=[1, 1],
    layer_type="basic",
    num_labels=7,
)
_classifier(
    "resnet-bottleneck",
    T.ResNetConfig,
    "ResNetForImageClassification",
    embedding_size=8,
    hidden_sizes=[16, 32],
    depths=[2, 1],
    num_labels=7,
)
_classifier(
    "regnet",
    T.RegNetConfig,
    "RegNetForImageClassification",
    embedding_size=8,
    hidden_sizes=[8, 16],
    depths=[1, 1],
    groups_width=4,
    num_labels=7,
)
_classifier(
    "convnext",
    T.ConvNextConfig,
    "ConvNextForImageClassification",
    hidden_sizes=[8, 16],
    depths=[1, 1],
    num_stages=2,
    num_labels=7,
)
_classifier(
    "convnextv2",
    T.ConvNextV2Config,
    "ConvNextV2ForImageClassification",
    hidden_sizes=[8, 16],
    depths=[1, 1],
    num_stages=2,
    num_labels=7,
)
_classifier(
    "mobilenet-v1", T.MobileNetV1Config, "MobileNetV1ForImageClassification", depth_multiplier=0.125, num_labels=7
)
_classifier(
    "mobilenet-v2",
    T.MobileNetV2Config,
    "MobileNetV2ForImageClassification",
    depth_multiplier=0.25,
    num_labels=7,
)
_classifier(
    "efficientnet",
    T.EfficientNetConfig,
    "EfficientNetForImageClassification",
    width_coefficient=0.25,
    depth_coefficient=0.5,
    image_size=64,
    hidden_dim=320,
    num_labels=7,
    size=64,
)
_classifier(
    "mobilevit",
    T.MobileViTConfig,
    "MobileViTForImageClassification",
    hidden_sizes=[16, 24, 32],
    neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32],
    num_attention_heads=4,
    image_size=64,
    size=64,
    num_labels=7,
)
_classifier(
    "mobilevitv2",
    T.MobileViTV2Config,
    "MobileViTV2ForImageClassification",
    image_size=64,
    size=64,
    width_multiplier=0.25,
    num_labels=7,
)
_classifier(
    "swin",
    T.SwinConfig,
    "SwinForImageClassification",
    image_size=32,
    patch_size=4,
    embed_dim=8,
    depths=[2, 1],
    num_heads=[2, 4],
    window_size=4,
    num_labels=7,
)
_classifier(
    "swinv2",
    T.Swinv2Config,
    "Swinv2ForImageClassification",
    image_size=32,
    patch_size=4,
    embed_dim=8,
    depths=[2, 1],
    num_heads=[2, 4],
    window_size=4,
    num_labels=7,
)
_classifier(
    "cvt",
    T.CvtConfig,
    "CvtForImageClassification",
    embed_dim=[8, 16, 16],
    num_heads=[1, 2, 2],
    depth=[1, 2, 3],
    num_labels=7,
)
_classifier(
    "levit",
    T.LevitConfig,
    "LevitForImageClassification",
    image_size=64,
    size=64,
    hidden_sizes=[16, 24, 32],
    num_attention_heads=[2, 2, 2],
    depths=[1, 1, 1],
    key_dim=[8, 8, 8],
    num_labels=7,
)
_classifier(
    "poolformer",
    T.PoolFormerConfig,
    "PoolFormerForImageClassification",
    hidden_sizes=[8, 8, 16, 16],
    depths=[1, 1, 1, 1],
    num_labels=7,
)
_classifier(
    "pvt",
    T.PvtConfig,
    "PvtForImageClassification",
    image_size=64,
    size=64,
    hidden_sizes=[8, 16, 16, 16],
    depths=[1, 1, 1, 1],
    num_attention_heads=[1, 2, 2, 2],
    num_labels=7,
)
_classifier(
    "pvt-v2",
    T.PvtV2Config,
    "PvtV2ForImageClassification",
    hidden_sizes=[8, 16, 16, 16],
    depths=[1, 1, 1, 1],
    num_attention_heads=[1, 2, 2, 2],
    num_labels=7,
    size=64,
)
_classifier(
    "focalnet",
    T.FocalNetConfig,
    "FocalNetForImageClassification",
    image_size=32,
    patch_size=4,
    embed_dim=8,
    depths=[1, 1],
    hidden_sizes=[8, 16],
    focal_levels=[2, 2],
    focal_windows=[3, 3],
    num_labels=7,
)
_classifier(
    "bit",
    T.BitConfig,
    "BitForImageClassification",
    embedding_size=32,
    hidden_sizes=[128, 256],
    depths=[1, 1],
    num_labels=7,
)
_classifier(
    "swiftformer",
    T.SwiftFormerConfig,
    "SwiftFormerForImageClassification",
    image_size=64,
    size=64,
    depths=[1, 1, 1, 1],
    embed_dims=[8, 8, 16, 16],
    num_labels=7,
)
_classifier(
    "hiera",
    T.HieraConfig,
    "HieraForImageClassification",
    image_size=[64, 64],
    size=64,
    embed_dim=8,
    depths=[1, 1],
    num_heads=[1, 2],
    query_stride=[2, 2],
    masked_unit_size=[4, 4],
    num_query_pool=1,
    num_labels=7,
)
_classifier(
    "segformer",
    T.SegformerConfig,
    "SegformerForSemanticSegmentation",
    size=64,
    hidden_sizes=[8, 8, 16, 16],
    depths=[1, 1, 1, 1],
    num_attention_heads=[1, 1, 2, 2],
    decoder_hidden_size=16,
    num_labels=5,
)
_classifier(
    "yolos", T.YolosConfig, "YolosForObjectDetection", **{**VIT, "image_size": [32, 32], "num_detection_tokens": 5}
)

DETR: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "num_queries": 6,
    "num_labels": 5,
    "use_timm_backbone": False,
    "use_pretrained_backbone": False,
    "backbone": None,
}


def _backbone(**extra: Any) -> Any:
    return T.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", **extra)


def _detector(
    name: str, config: Any, head: str, out: tuple[str, ...] = ("logits", "pred_boxes"), size: int = 64, **extra: Any
) -> None:
    @model(name)
    def _build() -> Any:
        return Only(lively(getattr(T, head)(config(**extra))), *out), {"pixel_values": normal(2, 3, size, size)}


_detector("detr", T.DetrConfig, "DetrForObjectDetection", backbone_config=_backbone(out_features=["stage2"]), **DETR)
_detector(
    "conditional-detr",
    T.ConditionalDetrConfig,
    "ConditionalDetrForObjectDetection",
    backbone_config=_backbone(out_features=["stage2"]),
    **DETR,
)
_detector(
    "table-transformer",
    T.TableTransformerConfig,
    "TableTransformerForObjectDetection",
    backbone_config=_backbone(out_features=["stage2"]),
    **DETR,
)
_detector(
    "upernet",
    T.UperNetConfig,
    "UperNetForSemanticSegmentation",
    ("logits",),
    backbone_config=T.ConvNextConfig(
        hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], out_features=["stage1", "stage2", "stage3", "stage4"]
    ),
    hidden_size=16,
    pool_scales=[1, 2],
    num_labels=5,
    auxiliary_in_channels=16,
    auxiliary_channels=16,
    use_auxiliary_head=False,
)
_detector(
    "maskformer",
    T.MaskFormerConfig,
    "MaskFormerForInstanceSegmentation",
    ("class_queries_logits", "masks_queries_logits"),
    backbone_config=T.SwinConfig(
        image_size=64,
        patch_size=4,
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[2, 2, 2, 2],
        window_size=2,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    ),
    decoder_config=T.DetrConfig(**{**DETR, "backbone_config": _backbone(out_features=["stage2"])}),
    fpn_feature_size=32,
    mask_feature_size=32,
)
_detector(
    "mask2former",
    T.Mask2FormerConfig,
    "Mask2FormerForUniversalSegmentation",
    ("class_queries_logits", "masks_queries_logits"),
    backbone_config=T.SwinConfig(
        image_size=64,
        patch_size=4,
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[2, 2, 2, 2],
        window_size=2,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    ),
    feature_size=32,
    mask_feature_size=32,
    hidden_dim=32,
    encoder_feedforward_dim=48,
    encoder_layers=1,
    decoder_layers=2,
    num_attention_heads=4,
    dim_feedforward=48,
    num_queries=6,
)
_detector(
    "dpt",
    T.DPTConfig,
    "DPTForDepthEstimation",
    ("predicted_depth",),
    32,
    hidden_size=32,
    num_hidden_layers=4,
    num_attention_heads=4,
    intermediate_size=48,
    image_size=32,
    patch_size=8,
    backbone_out_indices=[0, 1, 2, 3],
    neck_hidden_sizes=[8, 8, 16, 16],
    fusion_hidden_size=16,
    is_hybrid=False,
)
_detector(
    "glpn",
    T.GLPNConfig,
    "GLPNForDepthEstimation",
    ("predicted_depth",),
    64,
    hidden_sizes=[8, 8, 16, 16],
    depths=[1, 1, 1, 1],
    num_attention_heads=[1, 1, 2, 2],
    decoder_hidden_size=16,
)
_detector(
    "swin2sr",
    T.Swin2SRConfig,
    "Swin2SRForImageSuperResolution",
    ("reconstruction",),
    16,
    image_size=16,
    patch_size=1,
    embed_dim=12,
    depths=[2],
    num_heads=[2],
    window_size=4,
    upscale=2,
)
_detector(
    "vitmatte-vitdet",
    T.VitDetConfig,
    "VitDetModel",
    ("last_hidden_state",),
    32,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    image_size=32,
    patch_size=8,
    window_size=2,
    window_block_indices=[0],
)


@model("clip")
def _clip() -> Any:
    text = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "vocab_size": 99,
        "eos_token_id": 98,
    }
    vision = {k: v for k, v in VIT.items() if k != "num_labels"}
    module = T.CLIPModel(T.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))
    tokens = ids(2, 7)
    tokens[:, -1] = 98
    inputs = {
        "input_ids": tokens,
        "pixel_values": normal(2, 3, 32, 32),
        "attention_mask": torch.ones(2, 7, dtype=torch.int64),
    }
    return Only(module, "logits_per_image", "text_embeds", "image_embeds"), inputs


@model("siglip")
def _siglip() -> Any:
    text = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "vocab_size": 99,
        "max_position_embeddings": 16,
    }
    vision = {k: v for k, v in VIT.items() if k != "num_labels"}
    module = T.SiglipModel(T.SiglipConfig(text_config=text, vision_config=vision))
    return Only(module, "logits_per_image", "text_embeds"), {
        "input_ids": ids(2, 7),
        "pixel_values": normal(2, 3, 32, 32),
    }
