"""Classic names of operators' attributes. The attributes of a call are its card, so these classes are groups of cards, for
`isinstance(call.attrs, op_attrs.Conv2DAttrs)` and, if a single operator has them, `op_attrs.Conv2DAttrs(channels=8)`."""

from __future__ import annotations

from typing import Any

from tilewright.relay.cards.card import OpCard, cards

_KINDS = {
    "AdaptivePool1DAttrs": "nn.adaptive_avg_pool1d nn.adaptive_max_pool1d",
    "AdaptivePool2DAttrs": "nn.adaptive_avg_pool2d nn.adaptive_max_pool2d",
    "AdaptivePool3DAttrs": "nn.adaptive_avg_pool3d nn.adaptive_max_pool3d",
    "AffineGridAttrs": "image.affine_grid",
    "AllClassNonMaximumSuppressionAttrs": "vision.all_class_non_max_suppression",
    "ArangeAttrs": "arange",
    "ArgReduceAttrs": "argmax argmin",
    "ArgsortAttrs": "argsort",
    "AutoSchedulerLayoutTransformAttrs": "auto_scheduler_layout_transform",
    "AvgPool1DAttrs": "nn.avg_pool1d",
    "AvgPool2DAttrs": "nn.avg_pool2d nn.avg_pool2d_grad qnn.avg_pool2d",
    "AvgPool3DAttrs": "nn.avg_pool3d",
    "BatchMatmulAttrs": "nn.batch_matmul",
    "BatchNormAttrs": "nn.batch_norm",
    "BatchToSpaceNDAttrs": "nn.batch_to_space_nd",
    "BiasAddAttrs": "nn.bias_add",
    "BinaryConv2DAttrs": "nn.bitserial_conv2d",
    "BinaryDenseAttrs": "nn.bitserial_dense",
    "BitPackAttrs": "nn.bitpack",
    "CastAttrs": "cast",
    "CastHintAttrs": "annotation.cast_hint",
    "ClipAttrs": "clip",
    "CompilerAttrs": "annotation.compiler_begin annotation.compiler_end",
    "ConcatenateAttrs": "concatenate qnn.concatenate",
    "Conv1DAttrs": "nn.conv1d",
    "Conv1DTransposeAttrs": "nn.conv1d_transpose",
    "Conv2DAttrs": "nn.conv2d nn.contrib_conv2d_NCHWc nn.contrib_depthwise_conv2d_NCHWc qnn.conv2d",
    "Conv2DTransposeAttrs": "nn.conv2d_transpose qnn.conv2d_transpose",
    "Conv2DWinogradNNPACKWeightTransformAttrs": "nn.contrib_conv2d_winograd_nnpack_weight_transform",
    "Conv2DWinogradAttrs": "nn.contrib_conv2d_winograd_without_weight_transform",
    "Conv3DAttrs": "nn.conv3d",
    "Conv3DTransposeAttrs": "nn.conv3d_transpose",
    "Conv3DWinogradAttrs": "nn.contrib_conv3d_winograd_without_weight_transform",
    "ConvWinogradWeightTransformAttrs": "nn.contrib_conv2d_winograd_weight_transform nn.contrib_conv3d_winograd_weight_transform",
    "CorrelationAttrs": "nn.correlation",
    "CropAndResizeAttrs": "image.crop_and_resize",
    "DebugAttrs": "debug",
    "DeformableConv2DAttrs": "nn.deformable_conv2d",
    "DenseAttrs": "nn.dense qnn.dense",
    "DynExpandDimsAttrs": "dyn.expand_dims",
    "EinsumAttrs": "einsum",
    "ReshapeLikeAttrs": "reshape_like",
    "ShapeFuncAttrs": "vm.shape_func",
    "SlidingWindowAttrs": "sliding_window",
    "DensePackAttrs": "nn.contrib_dense_pack",
    "DequantizeAttrs": "qnn.dequantize",
    "DeviceCopyAttrs": "device_copy",
    "DilateAttrs": "nn.dilate",
    "Dilation2DAttrs": "image.dilation2d",
    "DropoutAttrs": "nn.dropout",
    "ExpandDimsAttrs": "expand_dims",
    "FIFOBufferAttrs": "nn.fifo_buffer",
    "FixedPointMultiplyAttrs": "fixed_point_multiply",
    "FixedPointMultiplyPerAxisAttrs": "fixed_point_multiply_per_axis",
    "GatherAttrs": "gather",
    "GatherNDAttrs": "gather_nd",
    "GetValidCountsAttrs": "vision.get_valid_counts",
    "GlobalPool2DAttrs": "nn.global_avg_pool2d nn.global_max_pool2d",
    "GridSampleAttrs": "image.grid_sample",
    "GroupNormAttrs": "nn.group_norm",
    "InitOpAttrs": "zeros ones full",
    "InstanceNormAttrs": "nn.instance_norm",
    "L2NormalizeAttrs": "nn.l2_normalize",
    "LRNAttrs": "nn.lrn",
    "LayerNormAttrs": "nn.layer_norm",
    "LayoutTransformAttrs": "layout_transform",
    "LeakyReluAttrs": "nn.leaky_relu",
    "MatmulAttrs": "nn.matmul",
    "MatrixSetDiagAttrs": "matrix_set_diag",
    "MaxPool1DAttrs": "nn.max_pool1d",
    "MaxPool2DAttrs": "nn.max_pool2d nn.max_pool2d_grad",
    "MaxPool3DAttrs": "nn.max_pool3d",
    "MeshgridAttrs": "meshgrid",
    "MirrorPadAttrs": "nn.mirror_pad",
    "MultiBoxPriorAttrs": "vision.multibox_prior",
    "MultiBoxTransformLocAttrs": "vision.multibox_transform_loc",
    "MultinomialAttrs": "random.multinomial",
    "NLLLossAttrs": "nn.nll_loss",
    "NdarraySizeAttrs": "ndarray_size",
    "NonMaximumSuppressionAttrs": "vision.non_max_suppression",
    "NormalAttrs": "random.normal",
    "OnDeviceAttrs": "on_device",
    "OneHotAttrs": "one_hot",
    "PReluAttrs": "nn.prelu",
    "PadAttrs": "nn.pad",
    "ProposalAttrs": "vision.proposal",
    "QuantizeAttrs": "qnn.quantize",
    "ROIAlignAttrs": "vision.roi_align",
    "ROIPoolAttrs": "vision.roi_pool",
    "ReduceAttrs": "all any logsumexp max mean min prod sum",
    "RepeatAttrs": "repeat",
    "RequantizeAttrs": "qnn.requantize",
    "ReshapeAttrs": "reshape contrib_reverse_reshape",
    "Resize1DAttrs": "image.resize1d",
    "Resize2DAttrs": "image.resize2d",
    "Resize3DAttrs": "image.resize3d",
    "ReverseAttrs": "reverse",
    "ReverseSequenceAttrs": "reverse_sequence",
    "ScanopAttrs": "cumsum cumprod",
    "ScatterElementsAttrs": "scatter_elements",
    "ScatterNDAttrs": "scatter_nd",
    "SearchSortedAttrs": "searchsorted",
    "SequenceMaskAttrs": "sequence_mask",
    "ShapeOfAttrs": "shape_of",
    "SliceLikeAttrs": "slice_like",
    "SoftmaxAttrs": "nn.softmax nn.log_softmax nn.fast_softmax",
    "SortAttrs": "sort",
    "SpaceToBatchNDAttrs": "nn.space_to_batch_nd",
    "SparseConv2DAttrs": "nn.sparse_conv2d",
    "SparseDenseAttrs": "nn.sparse_dense",
    "SparseToDenseAttrs": "dyn.sparse_to_dense",
    "SparseTransposeAttrs": "nn.sparse_transpose",
    "SplitAttrs": "split",
    "SqueezeAttrs": "squeeze",
    "StackAttrs": "stack",
    "StftAttrs": "stft",
    "StridedSliceAttrs": "strided_slice",
    "SubPixelAttrs": "nn.depth_to_space nn.space_to_depth",
    "TakeAttrs": "take",
    "ThreefryGenerateAttrs": "random.threefry_generate",
    "TileAttrs": "tile",
    "TopkAttrs": "topk",
    "TransposeAttrs": "transpose",
    "TriluAttrs": "trilu",
    "UniformAttrs": "random.uniform",
    "UniqueAttrs": "unique",
    "UpSampling3DAttrs": "nn.upsampling3d",
    "UpSamplingAttrs": "nn.upsampling",
    "VarianceAttrs": "variance std",
    "YoloReorgAttrs": "vision.yolo_reorg",
}

__all__ = list(_KINDS)


class AttrsKind(type):
    """A group of cards: the operators with these attributes in common."""

    operators: frozenset[str]

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, OpCard) and type(value).type_key in cls.operators

    def __subclasscheck__(cls, other: type) -> bool:
        return other is cls or (issubclass(other, OpCard) and other.type_key in cls.operators)

    def __call__(cls, **attrs: Any) -> OpCard:
        """The attributes of the (first) operator that has them."""
        return cards()[cls.__dict__["first"]](**attrs)


def _kind(name: str, operators: str) -> AttrsKind:
    keys = operators.split()
    body = {
        "operators": frozenset(keys),
        "first": keys[0],
        "__doc__": f"Attributes of {', '.join(keys)}.",
        "__module__": __name__,
    }
    return AttrsKind(name, (), body)


globals().update({name: _kind(name, operators) for name, operators in _KINDS.items()})
