"""Relay: the functional graph IR, its operators, its passes, and the way from it to native code."""

from __future__ import annotations

from sys import setrecursionlimit
from typing import TYPE_CHECKING
from typing import Any as _Object

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
    bind,
    const,
    var,
)
from tilewright.relay.op import annotation, dyn, image, nn, random, vision
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
    "backend": "tilewright.relay.backend",
    "alpha_equal": "tilewright.relay.analysis:alpha_equal",
    "build": "tilewright.relay.backend.build:build",
    "build_config": "tilewright.relay.transform:build_config",
    "create_executor": "tilewright.relay.backend:create_executor",
    "fromtext": "tilewright.relay.parser:fromtext",
    "optimize": "tilewright.relay.backend.compilation:optimize",
    "parse": "tilewright.relay.parser:parse",
    "parse_expr": "tilewright.relay.parser:parse_expr",
    "qnn": "tilewright.relay.qnn",
    "build_module": "tilewright.relay.build_module",
    "expr_functor": "tilewright.relay.expr_functor",
    "prelude": "tilewright.relay.prelude",
    "scope_builder": "tilewright.relay.scope_builder",
    "type_functor": "tilewright.relay.type_functor",
    "collage": "tilewright.relay.collage",
    "debug": "tilewright.relay.debug",
    "data_dep_optimization": "tilewright.relay.data_dep_optimization",
    "frontend": "tilewright.relay.frontend",
    "testing": "tilewright.relay.testing",
    "vm": "tilewright.relay.backend.vm",
}
lazy.declare("tilewright.relay", _LATE)
lazy.faces(
    "tilewright.relay",
    {
        "base": ("astext", "pretty_print", "Span", "SequentialSpan", "SourceName", "tilewright.ir:Node"),
        "function": ("Function",),
        "param_dict": ("load_param_dict", "save_param_dict"),
    },
)
_late = lazy.resolver("tilewright.relay")


def __getattr__(name: str) -> _Object:
    """Every operator's constructor by its name: relay.add, relay.reshape, ..."""
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return _late(name)
    except AttributeError:
        return op.lookup(name)
