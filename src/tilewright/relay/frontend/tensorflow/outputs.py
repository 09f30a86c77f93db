"""Names of the results of operators with several results. Functions refer to results by these names."""

from __future__ import annotations

from typing import Any

_NORM = ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3")
_DECODED = ("decoded_indices", "decoded_values", "decoded_shape", "log_probability")
_PARSED = ("sparse_indices", "sparse_values", "sparse_shapes", "dense_values")
_SPARSE = ("output_indices", "output_values", "output_shape")
_COUNTED = (*_SPARSE[:2], "output_dense_shape")
_NORM_GRAD = ("x_backprop", "scale_backprop", "offset_backprop")
_LSTM = ("i", "cs", "f", "o", "ci", "co", "h")

OUTPUTS: dict[str, tuple[str, ...]] = {
    "FusedBatchNorm": _NORM[:5], "FusedBatchNormV2": _NORM[:5], "FusedBatchNormV3": _NORM, "TopK": ("values", "indices"),
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
    "ApproxTopK": ("values", "indices"), "CTCBeamSearchDecoder": _DECODED, "CTCGreedyDecoder": _DECODED, "CTCLoss": ("loss", "gradient"),
    "CTCLossV2": ("loss", "gradient"), "DecodeWav": ("audio", "sample_rate"), "Eig": ("e", "v"), "LookupTableExport": ("keys", "values"),
    "LookupTableExportV2": ("keys", "values"), "ParseExample": _PARSED, "ParseSingleExample": _PARSED,
    "ParseExampleV2": (*_PARSED, "ragged_values", "ragged_row_splits"), "RefMerge": ("output", "value_index"),
    "RaggedGather": ("output_nested_splits", "output_dense_values"), "RaggedRange": ("rt_nested_splits", "rt_dense_values"),
    "RaggedTensorToSparse": ("sparse_indices", "sparse_values", "sparse_dense_shape"), "RefSwitch": ("output_false", "output_true"),
    "SparseReorder": ("output_indices", "output_values"), "StatelessRandomGetKeyCounter": ("key", "counter"),
    "StatelessRandomGetKeyCounterAlg": ("key", "counter", "alg"), "StringNGrams": ("ngrams", "ngrams_splits"),
    "StringSplit": ("indices", "values", "shape"), "StringSplitV2": ("indices", "values", "shape"),
    "UnicodeDecode": ("row_splits", "char_values"), "UnicodeDecodeWithOffsets": ("row_splits", "char_values", "char_to_byte_starts"),
    **dict.fromkeys(("SparseConcat", "SparseCross", "SparseCrossHashed", "SparseCrossV2", "SparseSlice", "SparseSplit"), _SPARSE),
    **dict.fromkeys(("SparseReduceMaxSparse", "SparseReduceSumSparse"), _SPARSE), "SparseAdd": ("sum_indices", "sum_values", "sum_shape"),
    **dict.fromkeys(("SparseSparseMaximum", "SparseSparseMinimum"), _SPARSE[:2]),
    **dict.fromkeys(("DenseCountSparseOutput", "RaggedCountSparseOutput", "SparseCountSparseOutput"), _COUNTED),
    **dict.fromkeys(("FusedBatchNormGrad", "FusedBatchNormGradV2"), (*_NORM_GRAD, "reserve_space_3", "reserve_space_4")),
    "FusedBatchNormGradV3": (*_NORM_GRAD, "reserve_space_4", "reserve_space_5"), "BatchSelfAdjointEigV2": ("e", "v"),
    "BatchSvd": ("s", "u", "v"),
    **dict.fromkeys(("DenseToDenseSetOperation", "DenseToSparseSetOperation", "SparseToSparseSetOperation"), (
        "result_indices", "result_values", "result_shape",
    )),
    "SparseFillEmptyRows": ("output_indices", "output_values", "empty_row_indicator", "reverse_index_map"),
}  # fmt: skip
_LISTS = {
    "sparse_indices": "num_sparse",
    "sparse_values": "sparse_types",
    "sparse_shapes": "num_sparse",
    "dense_values": "Tdense",
}
COUNTS: dict[str, dict[str, str]] = {
    "ParseExample": _LISTS | {"sparse_indices": "Nsparse", "sparse_shapes": "Nsparse"}, "ParseSingleExample": _LISTS,
    "ParseExampleV2": _LISTS | {"ragged_values": "ragged_value_types", "ragged_row_splits": "ragged_split_types"},
    "SparseSplit": dict.fromkeys(_SPARSE, "num_split"),
    "RaggedGather": {"output_nested_splits": "OUTPUT_RAGGED_RANK"}, "CTCBeamSearchDecoder": dict.fromkeys(_DECODED[:3], "top_paths"),
}  # fmt: skip
"""Operators with results that are lists: result -> the attribute with its length."""


def begin_of(op: str, output: str, names: tuple[str, ...], attrs: Any) -> int:
    """The index of an output's first tensor among all results of an operator."""
    counts, at = COUNTS.get(op, {}), 0
    for name in names[: names.index(output)] if output in names else ():
        said = attrs[counts[name]] if name in counts and counts[name] in attrs else None
        at += 1 if said is None else len(said.list.type) if said.HasField("list") else int(said.i)
    return at
