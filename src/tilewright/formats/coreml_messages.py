"""Core ML's messages, as far as neural networks need them, and the weights in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.formats.protobuf import message_class

PACKAGE = "tilewright.coreml"
Message = Any
"""A message of Core ML's format: a model, a layer or its parameters."""

_AXES = "axes 1 *int64; keepDims 2 bool; reduceAll 3 bool"
_REDUCTIONS = ("L1", "L2", "Max", "Min", "Sum", "Prod", "Mean", "LogSum", "SumSquare", "LogSumExp")
_PARAMETERS: dict[str, tuple[int, str]] = {
    "convolution": (
        100,
        "outputChannels 1 uint64; kernelChannels 2 uint64; nGroups 10 uint64; kernelSize 20 *uint64; stride 30 *uint64;"
        " dilationFactor 40 *uint64; valid 50 ValidPadding; same 51 SamePadding; isDeconvolution 60 bool; hasBias 70 bool;"
        " weights 90 WeightParams; bias 91 WeightParams; outputShape 100 *uint64",
    ),
    "pooling": (
        120,
        "type 1 int32; kernelSize 10 *uint64; stride 20 *uint64; valid 30 ValidPadding; same 31 SamePadding;"
        " includeLastPixel 32 ValidCompletePadding; avgPoolExcludePadding 50 bool; globalPooling 60 bool",
    ),
    "innerProduct": (
        140,
        "inputChannels 1 uint64; outputChannels 2 uint64; hasBias 10 bool; weights 20 WeightParams; bias 21 WeightParams",
    ),
    "embedding": (
        150,
        "inputDim 1 uint64; outputChannels 2 uint64; hasBias 10 bool; weights 20 WeightParams; bias 21 WeightParams",
    ),
    "batchnorm": (
        160,
        "channels 1 uint64; computeMeanVar 5 bool; instanceNormalization 6 bool; epsilon 10 float; gamma 15 WeightParams;"
        " beta 16 WeightParams; mean 17 WeightParams; variance 18 WeightParams",
    ),
    "mvn": (165, "acrossChannels 1 bool; normalizeVariance 2 bool; epsilon 3 float"),
    "l2normalize": (170, "epsilon 1 float"),
    "softmax": (175, ""),
    "lrn": (180, "alpha 1 float; beta 2 float; localSize 3 uint64; k 4 float"),
    "crop": (190, "cropAmounts 1 BorderAmounts; offset 5 *uint64"),
    "padding": (
        200,
        "constant 1 PaddingConstant; reflection 2 Empty; replication 3 Empty; paddingAmounts 10 BorderAmounts",
    ),
    "upsample": (
        210,
        "scalingFactor 1 *uint64; mode 5 int32; linearUpsampleMode 6 int32; fractionalScalingFactor 7 *float",
    ),
    "resizeBilinear": (211, "targetSize 1 *uint64; mode 2 SamplingMode"),
    "unary": (220, "type 1 int32; alpha 2 float; epsilon 3 float; shift 4 float; scale 5 float"),
    "add": (230, "alpha 1 float"),
    "multiply": (231, "alpha 1 float"),
    "average": (240, ""),
    "scale": (
        245,
        "shapeScale 1 *uint64; scale 2 WeightParams; hasBias 3 bool; shapeBias 4 *uint64; bias 5 WeightParams",
    ),
    "bias": (250, "shape 1 *uint64; bias 2 WeightParams"),
    "max": (260, ""),
    "min": (261, ""),
    "dot": (270, "cosineSimilarity 1 bool"),
    "reduce": (280, "mode 1 int32; epsilon 2 float; axis 3 int32"),
    "loadConstant": (290, "shape 1 *uint64; data 2 WeightParams"),
    "reshape": (300, "targetShape 1 *int64; mode 2 int32"),
    "flatten": (301, "mode 1 int32"),
    "permute": (310, "axis 1 *uint64"),
    "concat": (320, "sequenceConcat 100 bool"),
    "split": (330, "nOutputs 1 uint64"),
    "sequenceRepeat": (340, "nRepetitions 1 uint64"),
    "reorganizeData": (345, "mode 1 int32; blockSize 2 uint64"),
    "slice": (350, "startIndex 1 int64; endIndex 2 int64; stride 3 uint64; axis 4 int32"),
    "copy": (600, ""),
    "clip": (660, "minVal 1 float; maxVal 2 float"),
    **{
        name: (660 + k, "")
        for name, k in {
            "ceil": 5,
            "floor": 10,
            "sign": 20,
            "round": 25,
            "exp2": 40,
            "sin": 50,
            "cos": 55,
            "tan": 60,
            "asin": 70,
            "acos": 75,
            "atan": 80,
            "sinh": 90,
            "cosh": 95,
            "tanh": 100,
            "asinh": 110,
            "acosh": 115,
            "atanh": 120,
            "erf": 130,
        }.items()
    },
    "gelu": (795, "mode 1 int32"),
    "equal": (815, "alpha 1 float"),
    "notEqual": (820, "alpha 1 float"),
    "lessThan": (825, "alpha 2 float"),
    "lessEqual": (827, "alpha 2 float"),
    "greaterThan": (830, "alpha 2 float"),
    "greaterEqual": (832, "alpha 2 float"),
    "logicalOr": (840, ""),
    "logicalXor": (845, ""),
    "logicalNot": (850, ""),
    "logicalAnd": (855, ""),
    "modBroadcastable": (865, ""),
    "minBroadcastable": (870, ""),
    "maxBroadcastable": (875, ""),
    "addBroadcastable": (880, ""),
    "powBroadcastable": (885, ""),
    "divideBroadcastable": (890, ""),
    "floorDivBroadcastable": (895, ""),
    "multiplyBroadcastable": (900, ""),
    "subtractBroadcastable": (905, ""),
    "tile": (920, "reps 1 *uint64"),
    "stack": (925, "axis 1 int64"),
    "gather": (930, "axis 1 int64"),
    "softmaxND": (950, "axis 1 int64"),
    "gatherAlongAxis": (952, "axis 1 int64"),
    "reverse": (960, "reverseDim 1 *bool"),
    "splitND": (975, "axis 1 int64; numSplits 2 uint64; splitSizes 3 *uint64"),
    "concatND": (980, "axis 1 int64; interleave 2 bool"),
    "transpose": (985, "axes 1 *uint64"),
    "sliceStatic": (
        995,
        "beginIds 1 *int64; beginMasks 2 *bool; endIds 3 *int64; endMasks 4 *bool; strides 5 *int64; squeezeMasks 6 *bool",
    ),
    "topK": (1015, "axis 1 int64; K 2 uint64; useBottomK 3 bool"),
    "argMin": (1020, "axis 1 int64; removeDim 2 bool"),
    "argMax": (1025, "axis 1 int64; removeDim 2 bool"),
    "embeddingND": (
        1040,
        "vocabSize 1 uint64; embeddingSize 2 uint64; hasBias 3 bool; weights 20 WeightParams; bias 21 WeightParams",
    ),
    "batchedMatmul": (
        1045,
        "transposeA 1 bool; transposeB 2 bool; weightMatrixFirstDimension 5 uint64; weightMatrixSecondDimension 6 uint64; hasBias 7 bool;"
        " weights 8 WeightParams; bias 9 WeightParams",
    ),
    "getShape": (1065, ""),
    "loadConstantND": (1070, "shape 1 *uint64; data 2 WeightParams"),
    "fillLike": (1080, "value 1 float"),
    "fillStatic": (1085, "value 1 float; targetShape 2 *uint64"),
    "broadcastToLike": (1100, ""),
    "broadcastToStatic": (1105, "targetShape 1 *uint64"),
    "squeeze": (1120, "axes 1 *int64; squeezeAll 2 bool"),
    "expandDims": (1125, "axes 1 *int64"),
    "flattenTo2D": (1130, "axis 1 int64"),
    "reshapeLike": (1135, ""),
    "reshapeStatic": (1140, "targetShape 1 *int64"),
    "rankPreservingReshape": (1150, "targetShape 1 *int64"),
    **{f"reduce{name}": (1250 + 5 * k, _AXES) for k, name in enumerate(_REDUCTIONS)},
    "whereBroadcastable": (1330, ""),
    "layerNormalization": (1350, "normalizedShape 1 *int64; eps 2 float; gamma 3 WeightParams; beta 4 WeightParams"),
}
"""Layers that are known: the field's number and the fields of its parameters."""
_NETWORK = "layers 1 *NeuralNetworkLayer; preprocessing 2 *Preprocessing; arrayInputShapeMapping 5 int32; imageInputShapeMapping 6 int32"


def _title(layer: str) -> str:
    return f"{layer[0].upper()}{layer[1:]}Layer"


MESSAGES: dict[str, str] = {
    "Model": "specificationVersion 1 int32; description 2 ModelDescription; neuralNetworkRegressor 303 NeuralNetwork;"
    " neuralNetworkClassifier 403 NeuralNetwork; neuralNetwork 500 NeuralNetwork",
    "ModelDescription": "input 1 *FeatureDescription; output 10 *FeatureDescription; predictedFeatureName 11 string;"
    " predictedProbabilitiesName 12 string",
    "FeatureDescription": "name 1 string; type 3 FeatureType",
    "FeatureType": "imageType 4 ImageFeatureType; multiArrayType 5 ArrayFeatureType",
    "ImageFeatureType": "width 1 int64; height 2 int64; colorSpace 3 int32",
    "ArrayFeatureType": "shape 1 *int64; dataType 2 int32",
    "NeuralNetwork": _NETWORK,
    "Preprocessing": "featureName 1 string; scaler 10 ImageScaler; meanImage 11 MeanImage",
    "ImageScaler": "channelScale 10 float; blueBias 20 float; greenBias 21 float; redBias 22 float; grayBias 30 float",
    "MeanImage": "meanImage 1 *float",
    "WeightParams": "floatValue 1 *float; float16Value 2 bytes; rawValue 30 bytes; int8RawValue 31 bytes; quantization 40 Quantization",
    "Quantization": "numberOfBits 1 uint64; linearQuantization 101 LinearQuantization; lookupTableQuantization 102 Table",
    "LinearQuantization": "scale 1 *float; bias 2 *float",
    "Table": "floatValue 1 *float",
    "EdgeSizes": "startEdgeSize 1 uint64; endEdgeSize 2 uint64",
    "BorderAmounts": "borderAmounts 10 *EdgeSizes",
    "ValidPadding": "paddingAmounts 1 BorderAmounts",
    "SamePadding": "asymmetryMode 1 int32",
    "ValidCompletePadding": "paddingAmounts 10 *uint64",
    "PaddingConstant": "value 1 float",
    "SamplingMode": "samplingMethod 1 int32",
    "Empty": "",
    "AlphaBeta": "alpha 1 float; beta 2 float",
    "AlphaWeights": "alpha 1 WeightParams; beta 2 WeightParams",
    "Activation": "linear 5 AlphaBeta; ReLU 10 Empty; leakyReLU 15 AlphaBeta; thresholdedReLU 20 AlphaBeta; PReLU 25 AlphaWeights;"
    " tanh 30 Empty; scaledTanh 31 AlphaBeta; sigmoid 40 Empty; sigmoidHard 41 AlphaBeta; ELU 50 AlphaBeta; softsign 60 Empty;"
    " softplus 70 Empty; parametricSoftplus 71 AlphaWeights",
    "NeuralNetworkLayer": "name 1 string; input 2 *string; output 3 *string; activation 130 Activation; "
    + "; ".join([f"{name} {number} {_title(name)}" for name, (number, _) in _PARAMETERS.items()]),
    **{_title(name): fields for name, (_, fields) in _PARAMETERS.items()},
}
"""Fields of each message, as `formats.protobuf` takes them."""
OTHER_MODELS = {
    200: "pipelineClassifier", 201: "pipelineRegressor", 202: "pipeline", 300: "glmRegressor", 301: "supportVectorRegressor",
    302: "treeEnsembleRegressor", 304: "bayesianProbitRegressor", 400: "glmClassifier", 401: "supportVectorClassifier",
    402: "treeEnsembleClassifier", 404: "kNearestNeighborsClassifier", 501: "itemSimilarityRecommender", 502: "mlProgram",
    555: "customModel", 556: "linkedModel",
    560: "classConfidenceThresholding", 600: "oneHotEncoder", 601: "imputer", 602: "featureVectorizer",
    603: "dictVectorizer", 604: "scaler", 606: "categoricalMapping", 607: "normalizer", 609: "arrayFeatureExtractor",
    610: "nonMaximumSuppression", 900: "identity",
}  # fmt: skip
"""Kinds of models that are no neural networks, by the number of their field."""


def message(name: str) -> Any:
    """The class of a message: message("Model")()."""
    return message_class(PACKAGE, name, MESSAGES)


def layer_of(layer: Message) -> tuple[str, Message]:
    """(the kind of a layer, its parameters). A kind that is not known has its number in its name."""
    found = [(f.name, value) for f, value in layer.ListFields() if f.number >= 100]
    if found:
        return found[0]
    unknown = unknown_fields(layer)
    return (f"layer of the number {unknown[0]}" if unknown else "layer without a kind"), None


def unknown_fields(of: Message) -> list[int]:
    """The numbers of fields that the tables above do not have."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    return [f.field_number for f in UnknownFieldSet(of)]


def weights_of(params: Message, shape: Sequence[int]) -> np.ndarray:
    """Weights as an array of float32. Quantised ones have a scale and a shift for each output channel, or are numbers in a table."""
    if len(params.floatValue):
        return np.array(params.floatValue, np.float32).reshape(shape)
    if params.float16Value:
        return np.frombuffer(params.float16Value, np.float16).astype(np.float32).reshape(shape)
    bits = int(params.quantization.numberOfBits)
    if not params.rawValue or not 1 <= bits <= 8:
        raise ValueError("its weights are neither float32, nor float16, nor of 1 to 8 bits")
    count = int(np.prod(shape))
    packed = np.unpackbits(np.frombuffer(params.rawValue, np.uint8))[: count * bits].reshape(count, bits)
    codes = packed @ (1 << np.arange(bits - 1, -1, -1))
    table = np.array(params.quantization.lookupTableQuantization.floatValue, np.float32)
    if len(table):
        return table[codes].reshape(shape)
    linear = params.quantization.linearQuantization
    scale, shift = (np.array(v, np.float32) for v in (linear.scale, linear.bias))
    shift = shift if len(shift) else np.zeros_like(scale)
    rows = codes.reshape(len(scale), -1).astype(np.float32)
    return (rows * scale[:, None] + shift[:, None]).reshape(shape)
