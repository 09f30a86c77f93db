"""Relay: the functional graph IR, its operators, its passes, and the way from it to native code."""

from __future__ import annotations

from typing import Any as _Object

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
    TypeVar,
)
from tilewright.relay import analysis, dataflow_pattern, op, transform
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
from tilewright.relay.analysis import alpha_equal
from tilewright.relay.backend import create_executor
from tilewright.relay.backend.build import build, optimize
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
from tilewright.relay.functor import ExprMutator, ExprVisitor
from tilewright.relay.op import dyn, image, nn, qnn, random, vision
from tilewright.relay.parser import fromtext, parse, parse_expr
from tilewright.relay.prelude import Prelude
from tilewright.relay.printer import astext
from tilewright.relay.scope_builder import ScopeBuilder
from tilewright.runtime import load_param_dict, save_param_dict
from tilewright.support import lazy
from tilewright.tir import Any

__all__ = [
    "dataflow_pattern",
    "Prelude",
    "ScopeBuilder",
    "alpha_equal",
    "Clause",
    "Constructor",
    "Match",
    "Pattern",
    "PatternConstructor",
    "PatternTuple",
    "PatternVar",
    "PatternWildcard",
    "TypeData",
    "RefCreate",
    "RefRead",
    "RefWrite",
    "fromtext",
    "parse",
    "parse_expr",
    "Any",
    "Call",
    "Constant",
    "Expr",
    "ExprMutator",
    "ExprVisitor",
    "FuncType",
    "Function",
    "GlobalTypeVar",
    "GlobalVar",
    "If",
    "IRModule",
    "IncompleteType",
    "Let",
    "RefType",
    "RelayExpr",
    "SequentialSpan",
    "SourceName",
    "Span",
    "TensorType",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "TupleWrapper",
    "Type",
    "TypeCall",
    "TypeConstraint",
    "TypeKind",
    "TypeVar",
    "Var",
    "analysis",
    "astext",
    "bind",
    "build",
    "build_module",
    "const",
    "create_executor",
    "dyn",
    "image",
    "load_param_dict",
    "nn",
    "op",
    "optimize",
    "qnn",
    "random",
    "save_param_dict",
    "transform",
    "var",
    "vision",
]

# The importers and the virtual machine are not needed by who builds graphs.
_LATE = {
    "build_module": "tilewright.relay.build_module",
    "frontend": "tilewright.relay.frontend",
    "vm": "tilewright.relay.backend.vm",
}
lazy.declare("tilewright.relay", _LATE)
_late = lazy.resolver("tilewright.relay")


def __getattr__(name: str) -> _Object:
    """Every operator's constructor by its name: relay.add, relay.reshape, ..."""
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _LATE:
        return _late(name)
    return op.lookup(name)
