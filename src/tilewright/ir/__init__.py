"""What every dialect shares: data types, types, spans, expressions' roots, IRModule, operators, passes."""

from tilewright.ir.attrs import Attrs, DictAttrs
from tilewright.ir.dtype import DataType
from tilewright.ir.expr import (
    BaseExpr,
    BaseFunc,
    FloatImm,
    GlobalVar,
    IntImm,
    Op,
    PrimExpr,
    Range,
    RelayExpr,
    as_prim_expr,
)
from tilewright.ir.module import IRModule
from tilewright.ir.op import register_intrin_lowering, register_op_attr
from tilewright.ir.span import SequentialSpan, SourceName, Span
from tilewright.ir.types import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    PointerType,
    PrimType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeConstraint,
    TypeKind,
    TypeVar,
    VoidType,
)
from tilewright.node import (
    Node,
    assert_structural_equal,
    get_first_structural_mismatch,
    load_json,
    save_json,
    structural_equal,
    structural_hash,
)
from tilewright.support import lazy

__getattr__ = lazy.resolver(__name__)

__all__ = [
    "Attrs",
    "BaseExpr",
    "BaseFunc",
    "DataType",
    "DictAttrs",
    "FloatImm",
    "FuncType",
    "GlobalTypeVar",
    "GlobalVar",
    "IRModule",
    "IncompleteType",
    "IntImm",
    "Node",
    "Op",
    "PointerType",
    "PrimExpr",
    "PrimType",
    "Range",
    "RefType",
    "RelayExpr",
    "SequentialSpan",
    "SourceName",
    "Span",
    "TensorType",
    "TupleType",
    "Type",
    "TypeCall",
    "TypeConstraint",
    "TypeKind",
    "TypeVar",
    "VoidType",
    "as_prim_expr",
    "assert_structural_equal",
    "get_first_structural_mismatch",
    "load_json",
    "register_intrin_lowering",
    "register_op_attr",
    "save_json",
    "structural_equal",
    "structural_hash",
]
