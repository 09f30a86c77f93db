"""Relay passes, with the classic names; each is made by a call and run on an IRModule."""

from typing import Any as _Any

from tilewright.ir.transform import Pass, PassContext, PassInfo, PrintIR, Sequential, function_pass_of, module_pass
from tilewright.ir.transform import register_pass as _register_pass
from tilewright.relay.backend.planning.explicit_memory import ManifestAlloc, ManifestLifetimes, MemoryPlan
from tilewright.relay.collage.collage_partition import CollagePartition
from tilewright.relay.expr import Function as _Function
from tilewright.relay.transform.annotate import AnnotateSpans, AnnotateUsedMemory, CapturePostDfsIndexInSpans, LabelOps
from tilewright.relay.transform.byoc import (
    AnnotateTarget,
    InlineCompilerFunctionsBoundTo,
    InlineComposites,
    MarkCompilerFunctionsAsExtern,
    MergeCompilerRegions,
    MergeComposite,
    OutlineCompilerFunctionsWithExistingGlobalSymbols,
    PartitionGraph,
)
from tilewright.relay.transform.dynamic.check_bounds import CheckBounds
from tilewright.relay.transform.dynamic.dynamic_to_static import DynamicToStatic
from tilewright.relay.transform.flexible_shape import FlexibleShapeDispatch
from tilewright.relay.transform.functional.basic_block import ToBasicBlockNormalForm
from tilewright.relay.transform.functional.cps import ToCPS, to_cps, un_cps
from tilewright.relay.transform.functional.defunctionalization import Defunctionalization
from tilewright.relay.transform.functional.eta_expand import EtaExpand
from tilewright.relay.transform.functional.gradient import FirstOrderGradient, gradient
from tilewright.relay.transform.functional.inline import Inline
from tilewright.relay.transform.functional.lambda_lift import LambdaLift
from tilewright.relay.transform.functional.normal_forms import (
    ToANormalForm,
    ToANormalFormExpr,
    ToGraphNormalForm,
    to_anf,
)
from tilewright.relay.transform.functional.partial_eval import PartialEvaluate
from tilewright.relay.transform.fusion.combine_parallel import (
    BatchingOps,
    CombineParallelBatchMatmul,
    CombineParallelConv2D,
    CombineParallelDense,
    CombineSmallConvolutions,
    CombineSmallProducts,
)
from tilewright.relay.transform.fusion.defuse_ops import DefuseOps
from tilewright.relay.transform.fusion.fuse_attention import FuseAttention
from tilewright.relay.transform.fusion.fuse_ops import FuseOps
from tilewright.relay.transform.fusion.fuse_rms_norm import FuseRmsNorm
from tilewright.relay.transform.fusion.slice_splits import SliceSplits
from tilewright.relay.transform.fusion.split_args import SplitArgs
from tilewright.relay.transform.layout.alter_layout import AlterOpLayout, PackDense
from tilewright.relay.transform.layout.channels_last import ChannelsLast
from tilewright.relay.transform.layout.convert_layout import ConvertLayout, LayoutConfig
from tilewright.relay.transform.layout.flatten_rows import FlattenRows
from tilewright.relay.transform.layout.halo import WriteHalos
from tilewright.relay.transform.layout.image_views import ImageViews
from tilewright.relay.transform.layout.pack_strassen import PackStrassen
from tilewright.relay.transform.layout.pack_winograd import PackWinograd
from tilewright.relay.transform.memory.batch_splitting import SplitBatch
from tilewright.relay.transform.memory.device_planner import PlanDevices
from tilewright.relay.transform.mixed_precision import ToMixedPrecision
from tilewright.relay.transform.operators.byte_products import ProductsOfBytes
from tilewright.relay.transform.operators.legalize import Legalize
from tilewright.relay.transform.operators.paired_products import ProductsOfPairs
from tilewright.relay.transform.operators.product_places import ProductsBeforeResizes
from tilewright.relay.transform.operators.templates import ApplyTemplates
from tilewright.relay.transform.operators.to_sparse import Conv2dToSparse, Conv2dToSparse2, DenseToSparse
from tilewright.relay.transform.operators.transposed_conv import TransposedConvolutions
from tilewright.relay.transform.operators.wide_sums import WideSums
from tilewright.relay.transform.operators.window_products import ProductsOfWindows
from tilewright.relay.transform.precision.fake_quantization import FakeQuantizationToInteger
from tilewright.relay.transform.precision.widen_kernels import WidenKernels
from tilewright.relay.transform.recast import ChangeBatch, recast
from tilewright.relay.transform.simplify.canonical import (
    CanonicalizeCast,
    DivToMul,
    FlattenAtrousConv,
    FoldExplicitPadding,
    LazyGradientInit,
    SimplifyExprPostAlterOp,
    SimplifyFCTranspose,
)
from tilewright.relay.transform.simplify.common_subexpr import EliminateCommonSubexpr
from tilewright.relay.transform.simplify.dead_code import DeadCodeElimination, RemoveUnusedFunctions
from tilewright.relay.transform.simplify.fast_math import FastMath
from tilewright.relay.transform.simplify.fold_constant import FoldConstant, fold_constant_expr
from tilewright.relay.transform.simplify.fold_scale_axis import (
    BackwardFoldScaleAxis,
    FoldScaleAxis,
    ForwardFoldScaleAxis,
)
from tilewright.relay.transform.simplify.loop_invariants import HoistInvariants
from tilewright.relay.transform.simplify.simplify_expr import SimplifyExpr
from tilewright.relay.transform.simplify.simplify_inference import CanonicalizeOps, SimplifyInference
from tilewright.relay.typing.infer_type import InferType, infer_types
from tilewright.support import lazy as _lazy


def build_config(
    opt_level: int = 2, required_pass: _Any = None, disabled_pass: _Any = None, trace: _Any = None
) -> PassContext:
    """A PassContext with these settings, under the name that older programs use."""
    return PassContext(opt_level, required_pass, disabled_pass)


FoldConstantExpr = fold_constant_expr
FunctionPass = ModulePass = Pass
function_pass = function_pass_of(_Function)
InferTypeLocal = infer_types

__all__ = [
    "AlterOpLayout",
    "ApplyTemplates",
    "AnnotateSpans",
    "AnnotateTarget",
    "AnnotateUsedMemory",
    "BackwardFoldScaleAxis",
    "BatchingOps",
    "CanonicalizeCast",
    "CanonicalizeOps",
    "CapturePostDfsIndexInSpans",
    "ChangeBatch",
    "CollagePartition",
    "CombineParallelBatchMatmul",
    "CombineParallelConv2D",
    "CombineParallelDense",
    "CombineSmallConvolutions",
    "CombineSmallProducts",
    "Conv2dToSparse",
    "Conv2dToSparse2",
    "ConvertLayout",
    "DeadCodeElimination",
    "Defunctionalization",
    "DefuseOps",
    "DenseToSparse",
    "DivToMul",
    "DynamicToStatic",
    "EliminateCommonSubexpr",
    "EtaExpand",
    "FakeQuantizationToInteger",
    "FastMath",
    "FirstOrderGradient",
    "FlattenAtrousConv",
    "FlattenRows",
    "ImageViews",
    "SplitBatch",
    "FlexibleShapeDispatch",
    "FoldConstant",
    "FoldConstantExpr",
    "FoldExplicitPadding",
    "FoldScaleAxis",
    "ForwardFoldScaleAxis",
    "FunctionPass",
    "FuseAttention",
    "FuseOps",
    "FuseRmsNorm",
    "HoistInvariants",
    "InferType",
    "InferTypeLocal",
    "Inline",
    "InlineCompilerFunctionsBoundTo",
    "InlineComposites",
    "LabelOps",
    "LambdaLift",
    "LayoutConfig",
    "LazyGradientInit",
    "Legalize",
    "ManifestAlloc",
    "ManifestLifetimes",
    "MarkCompilerFunctionsAsExtern",
    "MemoryPlan",
    "MergeCompilerRegions",
    "MergeComposite",
    "ModulePass",
    "OutlineCompilerFunctionsWithExistingGlobalSymbols",
    "PackDense",
    "PackStrassen",
    "PackWinograd",
    "PartialEvaluate",
    "PartitionGraph",
    "Pass",
    "PassContext",
    "PassInfo",
    "PlanDevices",
    "PrintIR",
    "ProductsBeforeResizes",
    "ProductsOfBytes",
    "ProductsOfPairs",
    "ProductsOfWindows",
    "RemoveUnusedFunctions",
    "Sequential",
    "SimplifyExpr",
    "SimplifyExprPostAlterOp",
    "SimplifyFCTranspose",
    "SimplifyInference",
    "SliceSplits",
    "SplitArgs",
    "ToANormalForm",
    "ToANormalFormExpr",
    "ToCPS",
    "ToBasicBlockNormalForm",
    "ToGraphNormalForm",
    "ToMixedPrecision",
    "ChannelsLast",
    "CheckBounds",
    "TransposedConvolutions",
    "WideSums",
    "WidenKernels",
    "WriteHalos",
    "build_config",
    "function_pass",
    "gradient",
    "module_pass",
    "recast",
    "to_cps",
    "un_cps",
]

for _name in __all__:
    _made = globals()[_name]
    if _made.__module__.startswith("tilewright.relay.") and _made.__name__[0].isupper():
        _register_pass(_name, _made)

_lazy.declare_modules(__name__)
__getattr__, __dir__ = _lazy.late(__name__)
