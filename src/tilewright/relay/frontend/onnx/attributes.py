"""Checks of attributes with a fixed set of values. Converters, the bodies that define operators, and ONNX's reference each read other
values differently."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.relay.frontend.onnx.value import OnnxNode

FLAG = (0, 1)
FLAGS = {
    "across_channels", "align_corners", "allowzero", "antialias", "broadcast", "ceil_mode", "center_point_box", "count_include_pad",
    "detect_negative", "detect_positive", "exclude_outside", "exclusive", "fmod", "input_forget", "interleaved", "inverse",
    "is_case_sensitive", "is_causal", "is_test", "keepdims", "largest", "layout", "linear_before_reset", "new_axis",
    "noop_with_empty_axes", "normalize_variance", "onesided", "output_sequence", "periodic", "reverse", "saturate",
    "select_last_index", "sorted", "spatial", "storage_order", "training_mode", "transA", "transB", "upper",
}  # fmt: skip
"""Boolean attributes of ONNX's own operators."""
PADDING = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
DIRECTIONS = ("forward", "reverse", "bidirectional")
SCATTERED = ("none", "add", "mul", "min", "max")
REDUCTIONS = ("mean", "none", "sum")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
ML = "ai.onnx.ml"
CHOICES: dict[tuple[str, str], dict[str, Sequence[int | str]]] = {
    ("", "AveragePool"): {"auto_pad": PADDING},
    ("", "BitShift"): {"direction": ("LEFT", "RIGHT")},
    ("", "Cast"): {"round_mode": ("up", "down", "nearest")},
    ("", "CastLike"): {"round_mode": ("up", "down", "nearest")},
    ("", "Conv"): {"auto_pad": PADDING},
    ("", "ConvInteger"): {"auto_pad": PADDING},
    ("", "ConvTranspose"): {"auto_pad": PADDING},
    ("", "DepthToSpace"): {"mode": ("DCR", "CRD")},
    ("", "Gelu"): {"approximate": ("none", "tanh")},
    ("", "GridSample"): {
        "mode": ("bilinear", "linear", "nearest", "bicubic", "cubic"), "padding_mode": ("zeros", "border", "reflection"),
    },
    ("", "GRU"): {"direction": DIRECTIONS},
    ("", "ImageDecoder"): {"pixel_format": ("RGB", "BGR", "Grayscale")},
    ("", "LpPool"): {"auto_pad": PADDING},
    ("", "LSTM"): {"direction": DIRECTIONS},
    ("", "MaxPool"): {"auto_pad": PADDING},
    ("", "NegativeLogLikelihoodLoss"): {"reduction": REDUCTIONS},
    ("", "QLinearConv"): {"auto_pad": PADDING},
    ("", "Resize"): {"nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")},
    ("", "RNN"): {"direction": DIRECTIONS},
    ("", "RoiAlign"): {"mode": ("avg", "max"), "coordinate_transformation_mode": ("half_pixel", "output_half_pixel")},
    ("", "ScatterElements"): {"reduction": SCATTERED},
    ("", "ScatterND"): {"reduction": SCATTERED},
    ("", "SoftmaxCrossEntropyLoss"): {"reduction": REDUCTIONS},
    ("", "SpaceToDepth"): {"mode": ("DCR", "CRD")},
    ("", "StringNormalizer"): {"case_change_action": ("LOWER", "UPPER", "NONE")},
    ("", "TensorScatter"): {"mode": ("linear", "circular")},
    ("", "TfIdfVectorizer"): {"mode": ("TF", "IDF", "TFIDF")},
    ("ai.onnx.preview.training", "Momentum"): {"mode": ("nesterov", "standard")},
    (ML, "CastMap"): {"cast_to": ("TO_FLOAT", "TO_INT64", "TO_STRING"), "map_form": ("DENSE", "SPARSE")},
    (ML, "LinearClassifier"): {"post_transform": TRANSFORMS},
    (ML, "LinearRegressor"): {"post_transform": TRANSFORMS},
    (ML, "Normalizer"): {"norm": ("MAX", "L1", "L2")},
    (ML, "SVMClassifier"): {"kernel_type": KERNELS, "post_transform": TRANSFORMS[:-1]},  # its scores are not probabilities
    (ML, "SVMRegressor"): {"kernel_type": KERNELS, "post_transform": TRANSFORMS},
    (ML, "TreeEnsemble"): {"aggregate_function": range(4), "post_transform": range(len(TRANSFORMS))},
    (ML, "TreeEnsembleClassifier"): {"post_transform": TRANSFORMS},
    (ML, "TreeEnsembleRegressor"): {"aggregate_function": ("SUM", "AVERAGE", "MIN", "MAX"), "post_transform": TRANSFORMS},
}  # fmt: skip
"""The allowed values of enumerated attributes, by domain and operator."""


def check_attributes(node: OnnxNode, domain: str) -> None:
    """Raises OpAttributeUnImplemented for an invalid or ambiguous value of an attribute."""
    for name, known in CHOICES.get((domain, node.op_type), {}).items():
        given = node.get(name)
        if given is not None and given not in known:
            raise node.refuse(name, given, ", ".join(map(str, known)))
    for name, given in () if domain else node.attrs.items():
        if name in FLAGS and given not in FLAG:
            raise node.refuse(name, given, "0, 1")
    if not domain and node.op_type == "Attention" and not node.get("softcap", 0.0) >= 0:
        raise node.refuse("softcap", node.get("softcap"), "0 (none) and positive numbers")
