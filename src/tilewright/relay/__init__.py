"""Relay: the functional graph IR, its operators, its passes, and the way from it to native code."""

from __future__ import annotations

from sys import setrecursionlimit
from typing import TYPE_CHECKING

from tilewright.relay import rooms  # isort: skip
from tilewright.ir import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    IRModule,
    RefType,
    SequentialSpan,
    SourceName,
    Span,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeConstraint,
    TypeKind,
    TypeRelation,
    TypeVar,
)
from tilewright.relay import op
from tilewright.relay.adt import (
    Clause,
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    TypeData,
)
from tilewright.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    RelayExpr,
    Tuple,
    TupleGetItem,
    TupleWrapper,
    Var,
    const,
    var,
)
from tilewright.relay.op import annotation, dyn, image, nn, random, vision
from tilewright.relay.parameters import bind
from tilewright.relay.printer import astext, pretty_print
from tilewright.relay.ty import ShapeVar, scalar_type
from tilewright.runtime import load_param_dict, save_param_dict
from tilewright.support import lazy
from tilewright.tir import Any

if TYPE_CHECKING:
    from tilewright.relay import analysis, dataflow_pattern, loops, qnn, quantize, transform
    from tilewright.relay.analysis import alpha_equal
    from tilewright.relay.backend import Executor, Runtime, create_executor
    from tilewright.relay.backend.build import build
    from tilewright.relay.backend.compilation import optimize
    from tilewright.relay.expr_functor import ExprFunctor, ExprMutator, ExprVisitor
    from tilewright.relay.parser import SpanCheck, fromtext, parse, parse_expr
    from tilewright.relay.prelude import Prelude
    from tilewright.relay.scope_builder import ScopeBuilder
    from tilewright.relay.transform import build_config
    from tilewright.relay.type_functor import TypeFunctor, TypeMutator, TypeVisitor

__all__ = [
    "Runtime",
    "Executor",
    "Any",
    "Call",
    "Clause",
    "Constant",
    "Constructor",
    "Expr",
    "ExprFunctor",
    "ExprMutator",
    "ExprVisitor",
    "FuncType",
    "Function",
    "GlobalTypeVar",
    "GlobalVar",
    "IRModule",
    "If",
    "IncompleteType",
    "Let",
    "Match",
    "Pattern",
    "PatternConstructor",
    "PatternTuple",
    "PatternVar",
    "PatternWildcard",
    "Prelude",
    "RefCreate",
    "RefRead",
    "RefType",
    "RefWrite",
    "RelayExpr",
    "ScopeBuilder",
    "SequentialSpan",
    "ShapeVar",
    "SourceName",
    "Span",
    "SpanCheck",
    "TensorType",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "TupleWrapper",
    "Type",
    "TypeCall",
    "TypeConstraint",
    "TypeData",
    "TypeFunctor",
    "TypeKind",
    "TypeMutator",
    "TypeRelation",
    "TypeVar",
    "TypeVisitor",
    "Var",
    "alpha_equal",
    "analysis",
    "annotation",
    "astext",
    "bind",
    "build",
    "build_config",
    "build_module",
    "const",
    "create_executor",
    "dataflow_pattern",
    "dyn",
    "fromtext",
    "image",
    "load_param_dict",
    "loops",
    "nn",
    "op",
    "optimize",
    "parse",
    "parse_expr",
    "pretty_print",
    "qnn",
    "quantize",
    "random",
    "save_param_dict",
    "scalar_type",
    "setrecursionlimit",
    "transform",
    "var",
    "vision",
]

_COPIED = (
    "Call", "Constant", "If", "Let", "RefCreate", "RefRead", "RefWrite", "Tuple", "TupleGetItem", "Var",
)  # fmt: skip
lazy.declare(
    "tilewright.relay.expr",
    {"bind": "tilewright.relay.parameters:bind"}
    | {f"{kind}WithFields": f"tilewright.relay.with_fields:{kind}WithFields" for kind in _COPIED},
)
# Compiling, and the importers, are not needed by who builds graphs.
_LATE = {
    "Executor": "tilewright.relay.backend:Executor",
    "ExprFunctor": "tilewright.relay.expr_functor:ExprFunctor",
    "ExprMutator": "tilewright.relay.expr_functor:ExprMutator",
    "ExprVisitor": "tilewright.relay.expr_functor:ExprVisitor",
    "Prelude": "tilewright.relay.prelude:Prelude",
    "Runtime": "tilewright.relay.backend:Runtime",
    "ScopeBuilder": "tilewright.relay.scope_builder:ScopeBuilder",
    "SpanCheck": "tilewright.relay.parser:SpanCheck",
    "TypeFunctor": "tilewright.relay.type_functor:TypeFunctor",
    "TypeMutator": "tilewright.relay.type_functor:TypeMutator",
    "TypeVisitor": "tilewright.relay.type_functor:TypeVisitor",
    "alpha_equal": "tilewright.relay.analysis:alpha_equal",
    "build": "tilewright.relay.backend.build:build",
    "build_config": "tilewright.relay.transform:build_config",
    "copy_shape_func": "tilewright.relay.op.op:copy_shape_func",
    "create_executor": "tilewright.relay.backend:create_executor",
    "fromtext": "tilewright.relay.parser:fromtext",
    "optimize": "tilewright.relay.backend.compilation:optimize",
    "parse": "tilewright.relay.parser:parse",
    "parse_expr": "tilewright.relay.parser:parse_expr",
    "vm": "tilewright.relay.backend.vm",
}
lazy.declare("tilewright.relay", _LATE)
lazy.faces(
    "tilewright.relay",
    {
        "base": ("astext", "pretty_print", "Span", "SequentialSpan", "SourceName", "tilewright.ir:Node"),
        "function": ("Function", "tilewright.relay.with_fields:FunctionWithFields"),
        "param_dict": ("load_param_dict", "save_param_dict"),
    },
)
lazy.declare_modules("tilewright.relay")
# Every operator's constructor is there by its name, too: relay.add, relay.reshape, ...
__getattr__, __dir__ = lazy.late("tilewright.relay", otherwise=op.lookup)
