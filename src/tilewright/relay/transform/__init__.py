"""Relay passes, with the classic names; each is made by a call and run on an IRModule."""

from tilewright.ir.inspection import register_inspection as _register_inspection
from tilewright.ir.transform import Pass, PassContext, PassInfo, PrintIR, Sequential, function_pass_of, module_pass
from tilewright.ir.transform import register_pass as _register_pass
from tilewright.relay.expr import Function as _Function
from tilewright.relay.transform import verify as _verify
from tilewright.relay.transform.alter_layout import AlterOpLayout, PackDense
from tilewright.relay.transform.byoc import (
    AnnotateTarget,
    InlineCompilerFunctionsBoundTo,
    MarkCompilerFunctionsAsExtern,
    MergeCompilerRegions,
    MergeComposite,
    OutlineCompilerFunctionsWithExistingGlobalSymbols,
    PartitionGraph,
)
from tilewright.relay.transform.common_subexpr import EliminateCommonSubexpr
from tilewright.relay.transform.dead_code import DeadCodeElimination, RemoveUnusedFunctions
from tilewright.relay.transform.fold_constant import FoldConstant, fold_constant_expr
from tilewright.relay.transform.fold_scale_axis import FoldScaleAxis
from tilewright.relay.transform.fuse_ops import FuseOps
from tilewright.relay.transform.gradient import FirstOrderGradient, gradient
from tilewright.relay.transform.infer_type import InferType, infer_types
from tilewright.relay.transform.inline import Inline
from tilewright.relay.transform.lambda_lift import LambdaLift
from tilewright.relay.transform.normal_forms import ToANormalForm, ToGraphNormalForm, to_anf
from tilewright.relay.transform.simplify_expr import SimplifyExpr
from tilewright.relay.transform.simplify_inference import CanonicalizeOps, SimplifyInference

FoldConstantExpr = fold_constant_expr
BackwardFoldScaleAxis = ForwardFoldScaleAxis = FoldScaleAxis
function_pass = function_pass_of(_Function)
InferTypeLocal = infer_types
ToANormalFormExpr = to_anf

__all__ = [
    "AlterOpLayout",
    "AnnotateTarget",
    "BackwardFoldScaleAxis",
    "CanonicalizeOps",
    "DeadCodeElimination",
    "EliminateCommonSubexpr",
    "FirstOrderGradient",
    "FoldConstant",
    "FoldConstantExpr",
    "FoldScaleAxis",
    "ForwardFoldScaleAxis",
    "FuseOps",
    "InferType",
    "InferTypeLocal",
    "Inline",
    "InlineCompilerFunctionsBoundTo",
    "LambdaLift",
    "MarkCompilerFunctionsAsExtern",
    "MergeCompilerRegions",
    "MergeComposite",
    "OutlineCompilerFunctionsWithExistingGlobalSymbols",
    "PackDense",
    "PartitionGraph",
    "Pass",
    "PassContext",
    "PassInfo",
    "PrintIR",
    "RemoveUnusedFunctions",
    "Sequential",
    "SimplifyExpr",
    "SimplifyInference",
    "ToANormalForm",
    "ToANormalFormExpr",
    "ToGraphNormalForm",
    "function_pass",
    "gradient",
    "module_pass",
]

_register_inspection(_Function, _verify.faults, _verify.size)

for _name in __all__:
    _made = globals()[_name]
    if _made.__module__.startswith(__name__) and _made.__name__[0].isupper():
        _register_pass(_name, _made)
