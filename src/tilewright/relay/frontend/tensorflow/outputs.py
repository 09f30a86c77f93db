"""Names of the results of operators that have several: functions refer to them so."""

from __future__ import annotations

_NORM = ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3")
_LSTM = ("i", "cs", "f", "o", "ci", "co", "h")

OUTPUTS: dict[str, tuple[str, ...]] = {
    "FusedBatchNorm": _NORM, "FusedBatchNormV2": _NORM, "FusedBatchNormV3": _NORM, "TopK": ("values", "indices"),
    "TopKV2": ("values", "indices"), "Unique": ("y", "idx"), "UniqueV2": ("y", "idx"), "UniqueWithCounts": ("y", "idx", "count"),
    "UniqueWithCountsV2": ("y", "idx", "count"), "Switch": ("output_false", "output_true"), "Merge": ("output", "value_index"),
    "TensorArrayV3": ("handle", "flow"), "TensorArrayConcatV3": ("value", "lengths"), "TensorListConcat": ("tensor", "lengths"),
    "TensorListConcatV2": ("tensor", "lengths"), "TensorListPopBack": ("output_handle", "tensor"), "BlockLSTM": _LSTM, "BlockLSTMV2": _LSTM,
    "LSTMBlockCell": _LSTM, "GRUBlockCell": ("r", "u", "c", "h"), "MaxPoolWithArgmax": ("output", "argmax"),
    "NonMaxSuppressionV4": ("selected_indices", "valid_outputs"),
    "NonMaxSuppressionV5": ("selected_indices", "selected_scores", "valid_outputs"),
    "CombinedNonMaxSuppression": ("nmsed_boxes", "nmsed_scores", "nmsed_classes", "valid_detections"),
    "BroadcastGradientArgs": ("r0", "r1"), "Svd": ("s", "u", "v"), "Qr": ("q", "r"), "SelfAdjointEigV2": ("e", "v"),
    "Lu": ("lu", "p"), "LogMatrixDeterminant": ("sign", "log_abs_determinant"), "ListDiff": ("out", "idx"),
    "QuantizeV2": ("output", "output_min", "output_max"), "SoftmaxCrossEntropyWithLogits": ("loss", "backprop"),
    "SparseSoftmaxCrossEntropyWithLogits": ("loss", "backprop"), "SparseReshape": ("output_indices", "output_shape"),
    "SparseFillEmptyRows": ("output_indices", "output_values", "empty_row_indicator", "reverse_index_map"),
}  # fmt: skip
