"""Parts that every dialect shares: data types, types, spans, roots of expressions, IRModule, operators, passes."""

from tilewright.ir.attrs import AttrFieldInfo, Attrs, DictAttrs, make_node
from tilewright.ir.calling_conv import CallingConv
from tilewright.ir.dtype import DataType
from tilewright.ir.env_func import EnvFunc
from tilewright.ir.expr import (
    BaseExpr,
    BaseFunc,
    FloatImm,
    GlobalVar,
    IntImm,
    Op,
    PrimExpr,
    PrimExprLike,
    Range,
    RelayExpr,
    as_prim_expr,
)
from tilewright.ir.module import IRModule
from tilewright.ir.op import register_intrin_lowering, register_op_attr
from tilewright.ir.span import SequentialSpan, SourceName, Span
from tilewright.ir.supply import GlobalVarSupply, NameSupply
from tilewright.ir.types import (
    AffineType,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    PointerType,
    PrimType,
    RefType,
    TensorAffineType,
    TensorType,
    TupleAffineType,
    TupleType,
    Type,
    TypeCall,
    TypeConstraint,
    TypeKind,
    TypeRelation,
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

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)

RelayRefType = RefType

lazy.faces(
    __name__,
    {
        "affine_type": ("AffineType", "TensorAffineType", "TupleAffineType"),
        "base": (
            "EnvFunc",
            "Node",
            "SequentialSpan",
            "SourceName",
            "Span",
            "assert_structural_equal",
            "get_first_structural_mismatch",
            "load_json",
            "make_node",
            "save_json",
            "structural_equal",
            "structural_hash",
        ),
        "function": ("BaseFunc", "CallingConv"),
        "tensor_type": ("TensorType",),
        "type": (
            "FuncType",
            "GlobalTypeVar",
            "IncompleteType",
            "PointerType",
            "PrimType",
            "RelayRefType",
            "TupleType",
            "Type",
            "TypeConstraint",
            "TypeKind",
            "TypeVar",
        ),
        "type_relation": ("TypeCall", "TypeRelation"),
    },
)

__all__ = [
    "AffineType",
    "AttrFieldInfo",
    "Attrs",
    "BaseExpr",
    "BaseFunc",
    "CallingConv",
    "DataType",
    "DictAttrs",
    "EnvFunc",
    "FloatImm",
    "FuncType",
    "GlobalTypeVar",
    "GlobalVar",
    "GlobalVarSupply",
    "IRModule",
    "IncompleteType",
    "IntImm",
    "NameSupply",
    "Node",
    "Op",
    "PointerType",
    "PrimExpr",
    "PrimExprLike",
    "PrimType",
    "Range",
    "RefType",
    "RelayExpr",
    "RelayRefType",
    "SequentialSpan",
    "SourceName",
    "Span",
    "TensorAffineType",
    "TensorType",
    "TupleAffineType",
    "TupleType",
    "Type",
    "TypeCall",
    "TypeConstraint",
    "TypeKind",
    "TypeRelation",
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
