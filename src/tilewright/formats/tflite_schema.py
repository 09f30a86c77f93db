"""The schema of TFLite's files as data: operators and element types by number, and the fields of every table by slot.

A test compares it with the schema that LiteRT ships.
"""

from __future__ import annotations

IDENTIFIER = b"TFL3"


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


OPERATORS = _names("""
    ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
    FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION
    LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH
    CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER
    BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
    BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM
    ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE
    TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK
    LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD
    RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N
    GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE
    NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL
    PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS HASHTABLE
    HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE
    ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU
    DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2
    UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE
    STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE
    STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE
    STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM
    STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT STABLEHLO_SELECT
    STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE
    STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW
    STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE STABLEHLO_RNG_BIT_GENERATOR
    REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT STABLEHLO_CASE
""")
"""Names of the builtin operators by number."""

TYPES = _names("""
    FLOAT32 FLOAT16 INT32 UINT8 INT64 STRING BOOL INT16 COMPLEX64 INT8 FLOAT64 COMPLEX128 UINT64 RESOURCE VARIANT
    UINT32 UINT16 INT4 BFLOAT16 INT2 UINT4 FLOAT8_E4M3FN FLOAT8_E5M2
""")
"""Names of the element types by number."""

ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")
COMPARISONS = ("EQ", "NE", "GE", "GT", "LE", "LT")
"""Directions of STABLEHLO_COMPARE."""
WINDOW_FUNCTIONS = ("UNSUPPORTED", "ADD", "MUL", "MINIMUM", "MAXIMUM", "ALL", "ANY")
"""Functions of REDUCE_WINDOW."""

UNIONS = {
    "details": (
        "",
        "CustomQuantization",
        "BlockwiseQuantization",
        "MultiAxisQuantization",
    ),
    "array_segments": ("", "Int32Vector", "Uint16Vector", "Uint8Vector"),
    "array_indices": ("", "Int32Vector", "Uint16Vector", "Uint8Vector"),
    "builtin_options": _names("""
    NONE Conv2DOptions DepthwiseConv2DOptions ConcatEmbeddingsOptions LSHProjectionOptions Pool2DOptions SVDFOptions
    RNNOptions FullyConnectedOptions SoftmaxOptions ConcatenationOptions AddOptions L2NormOptions
    LocalResponseNormalizationOptions LSTMOptions ResizeBilinearOptions CallOptions ReshapeOptions SkipGramOptions
    SpaceToDepthOptions EmbeddingLookupSparseOptions MulOptions PadOptions GatherOptions BatchToSpaceNDOptions
    SpaceToBatchNDOptions TransposeOptions ReducerOptions SubOptions DivOptions SqueezeOptions SequenceRNNOptions
    StridedSliceOptions ExpOptions TopKV2Options SplitOptions LogSoftmaxOptions CastOptions DequantizeOptions
    MaximumMinimumOptions ArgMaxOptions LessOptions NegOptions PadV2Options GreaterOptions GreaterEqualOptions
    LessEqualOptions SelectOptions SliceOptions TransposeConvOptions SparseToDenseOptions TileOptions
    ExpandDimsOptions EqualOptions NotEqualOptions ShapeOptions PowOptions ArgMinOptions FakeQuantOptions PackOptions
    LogicalOrOptions OneHotOptions LogicalAndOptions LogicalNotOptions UnpackOptions FloorDivOptions SquareOptions
    ZerosLikeOptions FillOptions BidirectionalSequenceLSTMOptions BidirectionalSequenceRNNOptions
    UnidirectionalSequenceLSTMOptions FloorModOptions RangeOptions ResizeNearestNeighborOptions LeakyReluOptions
    SquaredDifferenceOptions MirrorPadOptions AbsOptions SplitVOptions UniqueOptions ReverseV2Options AddNOptions
    GatherNdOptions CosOptions WhereOptions RankOptions ReverseSequenceOptions MatrixDiagOptions QuantizeOptions
    MatrixSetDiagOptions HardSwishOptions IfOptions WhileOptions DepthToSpaceOptions NonMaxSuppressionV4Options
    NonMaxSuppressionV5Options ScatterNdOptions SelectV2Options DensifyOptions SegmentSumOptions BatchMatMulOptions
    CumsumOptions CallOnceOptions BroadcastToOptions Rfft2dOptions Conv3DOptions HashtableOptions HashtableFindOptions
    HashtableImportOptions HashtableSizeOptions VarHandleOptions ReadVariableOptions AssignVariableOptions
    RandomOptions BucketizeOptions GeluOptions DynamicUpdateSliceOptions UnsortedSegmentProdOptions
    UnsortedSegmentMaxOptions UnsortedSegmentMinOptions UnsortedSegmentSumOptions ATan2Options SignOptions
    BitcastOptions BitwiseXorOptions RightShiftOptions
"""),
    "builtin_options2": _names("""
    NONE StablehloConcatenateOptions StablehloBroadcastInDimOptions StablehloSliceOptions StablehloConvolutionOptions
    StablehloCustomCallOptions StablehloReduceOptions StablehloScatterOptions StablehloCompareOptions
    StablehloDynamicSliceOptions StablehloPadOptions StablehloIotaOptions StablehloDotGeneralOptions
    StablehloReduceWindowOptions StablehloSortOptions StablehloWhileOptions StablehloGatherOptions
    StablehloTransposeOptions DilateOptions StablehloRngBitGeneratorOptions ReduceWindowOptions
    StableHLOCompositeOptions StablehloShiftLeftOptions StablehloCaseOptions
"""),
}
"""The tables that a union's number stands for, by the union's name; the first is none."""

OPTIONS = {
    operator: table
    for union in ("builtin_options", "builtin_options2")
    for table in UNIONS[union][1:]
    for operator in OPERATORS
    if operator.replace("_", "").casefold() == table.removesuffix("Options").casefold()
}
"""The table of an operator's options, where it has its name; operators that share one are not told."""

_TABLES = """
CustomQuantization custom:[uint8]
BlockwiseQuantization scales:int32 zero_points:int32 block_size:int32 block_shape:[int32]
MultiAxisQuantization scales:int32 zero_points:int32 block_size:int32 quantized_dimensions:[int32]
QuantizationParameters min:[float32] max:[float32] scale:[float32] zero_point:[int64] details_type:uint8 details:|
  quantized_dimension:int32
Int32Vector values:[int32]
Uint16Vector values:[uint16]
Uint8Vector values:[uint8]
DimensionMetadata format:int8 dense_size:int32 array_segments_type:uint8 array_segments:| array_indices_type:uint8
  array_indices:|
SparsityParameters traversal_order:[int32] block_map:[int32] dim_metadata:[DimensionMetadata]
VariantSubType shape:[int32] type:int8 has_rank:bool
Tensor shape:[int32] type:int8 buffer:uint32 name:string quantization:QuantizationParameters is_variable:bool
  sparsity:SparsityParameters shape_signature:[int32] has_rank:bool variant_tensors:[VariantSubType]
  external_buffer:uint32
OperatorCode deprecated_builtin_code:int8 custom_code:string version:int32=1 builtin_code:int32
Operator opcode_index:uint32 inputs:[int32] outputs:[int32] builtin_options_type:uint8 builtin_options:|
  custom_options:[uint8] custom_options_format:int8 mutating_variable_inputs:[bool] intermediates:[int32]
  large_custom_options_offset:uint64 large_custom_options_size:uint64 builtin_options2_type:uint8 builtin_options2:|
  debug_metadata_index:int32=-1
SubGraph tensors:[Tensor] inputs:[int32] outputs:[int32] operators:[Operator] name:string
  debug_metadata_index:int32=-1
Buffer data:[uint8] offset:uint64 size:uint64
ExternalBufferGroup name:string
ExternalBuffer id:uint32 group:uint32 offset:uint64 length:uint64 packing:string
Metadata name:string buffer:uint32
TensorMap name:string tensor_index:uint32
SignatureDef inputs:[TensorMap] outputs:[TensorMap] signature_key:string - subgraph_index:uint32
Model version:uint32 operator_codes:[OperatorCode] subgraphs:[SubGraph] description:string buffers:[Buffer]
  metadata_buffer:[int32] metadata:[Metadata] signature_defs:[SignatureDef]
  external_buffer_groups:[ExternalBufferGroup] external_buffers:[ExternalBuffer]
StablehloGatherOptions offset_dims:[int64] collapsed_slice_dims:[int64] start_index_map:[int64] index_vector_dim:int64
  slice_sizes:[int64] indices_are_sorted:bool
StablehloTransposeOptions permutation:[int64]
StablehloDotGeneralOptions lhs_batching_dimensions:[int64] rhs_batching_dimensions:[int64]
  lhs_contracting_dimensions:[int64] rhs_contracting_dimensions:[int64] precision_config:[uint32]
StablehloReduceWindowOptions window_dimensions:[int64] window_strides:[int64] base_dilations:[int64]
  window_dilations:[int64] padding:[int64] body_subgraph_index:int32
StablehloWhileOptions cond_subgraph_index:int32 body_subgraph_index:int32
StablehloSortOptions dimension:int64 is_stable:bool comparator_subgraph_index:int32
StablehloConcatenateOptions dimension:int64
StablehloBroadcastInDimOptions broadcast_dimensions:[int64]
StablehloCompareOptions comparison_direction:uint32 compare_type:uint32
StablehloDynamicSliceOptions slice_sizes:[int64]
StablehloPadOptions edge_padding_low:[int64] edge_padding_high:[int64] interior_padding:[int64]
StablehloIotaOptions iota_dimension:int64
StablehloCustomCallOptions call_target_name:string has_side_effect:bool backend_config:string api_version:int32
  called_computations:[int32] custom_attributes:[uint8]
StablehloReduceOptions dimensions:[int64] body_subgraph_index:int32
StablehloSliceOptions start_indices:[int64] limit_indices:[int64] strides:[int64]
StablehloConvolutionOptions window_strides:[int64] padding:[int64] lhs_dilation:[int64] rhs_dilation:[int64]
  window_reversal:[bool] input_batch_dimension:int64 input_feature_dimension:int64 input_spatial_dimensions:[int64]
  kernel_input_feature_dimension:int64 kernel_output_feature_dimension:int64 kernel_spatial_dimensions:[int64]
  output_batch_dimension:int64 output_feature_dimension:int64 output_spatial_dimensions:[int64]
  feature_group_count:int64 batch_group_count:int64 precision_config:[uint32]
StablehloScatterOptions indices_are_sorted:bool update_window_dims:[int64] inserted_window_dims:[int64]
  scatter_dims_to_operand_dims:[int64] index_vector_dim:int64 unique_indices:bool
  update_computation_subgraph_index:int32
StablehloCaseOptions branch_subgraph_indices:[int32]
StablehloRngBitGeneratorOptions algorithm:int8
Conv2DOptions padding:int8 stride_w:int32 stride_h:int32 fused_activation_function:int8 dilation_w_factor:int32=1
  dilation_h_factor:int32=1 quantized_bias_type:int8
Conv3DOptions padding:int8 stride_d:int32 stride_w:int32 stride_h:int32 fused_activation_function:int8
  dilation_d_factor:int32=1 dilation_w_factor:int32=1 dilation_h_factor:int32=1
Pool2DOptions padding:int8 stride_w:int32 stride_h:int32 filter_width:int32 filter_height:int32
  fused_activation_function:int8
DepthwiseConv2DOptions padding:int8 stride_w:int32 stride_h:int32 depth_multiplier:int32
  fused_activation_function:int8 dilation_w_factor:int32=1 dilation_h_factor:int32=1
ConcatEmbeddingsOptions num_channels:int32 num_columns_per_channel:[int32] embedding_dim_per_channel:[int32]
LSHProjectionOptions type:int8
SVDFOptions rank:int32 fused_activation_function:int8 asymmetric_quantize_inputs:bool
RNNOptions fused_activation_function:int8 asymmetric_quantize_inputs:bool
SequenceRNNOptions time_major:bool fused_activation_function:int8 asymmetric_quantize_inputs:bool
BidirectionalSequenceRNNOptions time_major:bool fused_activation_function:int8 merge_outputs:bool
  asymmetric_quantize_inputs:bool
FullyConnectedOptions fused_activation_function:int8 weights_format:int8 keep_num_dims:bool
  asymmetric_quantize_inputs:bool quantized_bias_type:int8 quant_spec:[uint8]
SoftmaxOptions beta:float32
ConcatenationOptions axis:int32 fused_activation_function:int8
AddOptions fused_activation_function:int8 pot_scale_int16:bool=1
MulOptions fused_activation_function:int8
L2NormOptions fused_activation_function:int8
LocalResponseNormalizationOptions radius:int32 bias:float32 alpha:float32 beta:float32
LSTMOptions fused_activation_function:int8 cell_clip:float32 proj_clip:float32 kernel_type:int8
  asymmetric_quantize_inputs:bool
UnidirectionalSequenceLSTMOptions fused_activation_function:int8 cell_clip:float32 proj_clip:float32 time_major:bool
  asymmetric_quantize_inputs:bool diagonal_recurrent_tensors:bool
BidirectionalSequenceLSTMOptions fused_activation_function:int8 cell_clip:float32 proj_clip:float32 merge_outputs:bool
  time_major:bool=1 asymmetric_quantize_inputs:bool
ResizeBilinearOptions - - align_corners:bool half_pixel_centers:bool
ResizeNearestNeighborOptions align_corners:bool half_pixel_centers:bool
CallOptions subgraph:uint32
ReshapeOptions new_shape:[int32]
SkipGramOptions ngram_size:int32 max_skip_size:int32 include_all_ngrams:bool
SpaceToDepthOptions block_size:int32
DepthToSpaceOptions block_size:int32
SubOptions fused_activation_function:int8 pot_scale_int16:bool=1
DivOptions fused_activation_function:int8
EmbeddingLookupSparseOptions combiner:int8
GatherOptions axis:int32 batch_dims:int32
ReducerOptions keep_dims:bool
SqueezeOptions squeeze_dims:[int32]
SplitOptions num_splits:int32
SplitVOptions num_splits:int32
StridedSliceOptions begin_mask:int32 end_mask:int32 ellipsis_mask:int32 new_axis_mask:int32 shrink_axis_mask:int32
  offset:bool
CastOptions in_data_type:int8 out_data_type:int8
ArgMaxOptions output_type:int8
ArgMinOptions output_type:int8
TransposeConvOptions padding:int8 stride_w:int32 stride_h:int32 fused_activation_function:int8
  quantized_bias_type:int8
SparseToDenseOptions validate_indices:bool
ShapeOptions out_type:int8
FakeQuantOptions min:float32 max:float32 num_bits:int32 narrow_range:bool
PackOptions values_count:int32 axis:int32
OneHotOptions axis:int32
UnpackOptions num:int32 axis:int32
LeakyReluOptions alpha:float32
MirrorPadOptions mode:int8
UniqueOptions idx_out_type:int8=2
ReverseSequenceOptions seq_dim:int32 batch_dim:int32
IfOptions then_subgraph_index:int32 else_subgraph_index:int32
CallOnceOptions init_subgraph_index:int32
WhileOptions cond_subgraph_index:int32 body_subgraph_index:int32
BatchMatMulOptions adj_x:bool adj_y:bool asymmetric_quantize_inputs:bool
CumsumOptions exclusive:bool reverse:bool
HashtableOptions table_id:int32 key_dtype:int8 value_dtype:int8
VarHandleOptions container:string shared_name:string
RandomOptions seed:int64 seed2:int64
BucketizeOptions boundaries:[float32]
GeluOptions approximate:bool
ReduceWindowOptions reduce_function:int32
StableHLOCompositeOptions name:string decomposition_subgraph_index:int32 composite_attributes:[uint8]
  composite_attributes_format:int8 version:int32
"""


class Field:
    """A field of a table: `kind` is a scalar's NumPy name, "string", a table's name, or "|" for a union; `many`: a vector of these."""

    __slots__ = ("default", "kind", "many", "name", "slot")

    def __init__(self, slot: int, text: str) -> None:
        self.name, _, kind = text.partition(":")
        kind, _, default = kind.partition("=")
        self.slot, self.many, self.kind = slot, kind.startswith("["), kind.strip("[]")
        self.default: int | float | bool = int(default or 0)
        if self.kind.startswith("float"):
            self.default = float(self.default)
        elif self.kind == "bool":
            self.default = bool(self.default)


def _tables() -> dict[str, list[Field]]:
    found: dict[str, list[Field]] = {}
    for line in _TABLES.strip().replace("\n  ", " ").splitlines():
        name, *fields = line.split()
        found[name] = [Field(slot, text) for slot, text in enumerate(fields) if text != "-"]
    return found


TABLES = _tables()
"""The fields of each table; tables without fields are left out."""
