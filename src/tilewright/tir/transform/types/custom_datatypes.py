"""Users' number types, "custom[name]32" (`tvm.target.datatype`), and the pass that lowers them to functions on bits.

datatype.register("myfloat", 150)
datatype.register_op(datatype.create_lower_func({(32, 32): "FloatToMy32"}), "Cast", "llvm", "float", "myfloat")
datatype.register_op(datatype.create_lower_func({32: "My32Add"}), "Add", "llvm", "myfloat")
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.ir import DataType, IRModule, PointerType, PrimExpr, PrimType
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import mutate_tuple, on
from tilewright.support.errors import TVMError
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Add, BinaryOpExpr, BufferLoad, Call, Cast, Let, Select, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import call_pure_extern, if_then_else
from tilewright.tir.stmt import Allocate, BufferStore, DeclBuffer, LetStmt, Stmt
from tilewright.tir.substitution import BufferMutator
from tilewright.tir.transform.base import call_name, prim_func_pass

Lower = Callable[[Any], Any]
FIRST_CODE = 129
_codes: dict[str, int] = {}
_lowers: dict[tuple[str, ...], Lower] = {}
_minima: dict[str, Callable[[int], Any]] = {}
_CUSTOM = re.compile(r"custom\[(\w+)\](\d+)")


def register(type_name: str, type_code: int) -> None:
    """Register the name of a type. type_code: an unused code from 129 on."""
    if type_code < FIRST_CODE:
        raise ValueError(f"datatype.register: the code of {type_name} must be {FIRST_CODE} or more, but is {type_code}")
    for name, code in _codes.items():
        if code == type_code and name != type_name:
            raise ValueError(f"datatype.register: the code {type_code} of {type_name} is that of {name} already")
    _codes[type_name] = type_code


def get_type_name(type_code: int) -> str:
    """The name of the type with a code."""
    for name, code in _codes.items():
        if code == type_code:
            return name
    raise ValueError(f"no type has the code {type_code}; register it with target.datatype.register")


def get_type_code(type_name: str) -> int:
    """The code of the type with a name."""
    if type_name not in _codes:
        raise ValueError(f"no type is named {type_name!r}; register it with target.datatype.register")
    return _codes[type_name]


def is_any_registered() -> bool:
    """Whether there are custom types at all."""
    return bool(_codes)


def get_type_registered(type_code: int) -> bool:
    """Whether a type with this code is registered."""
    return type_code in _codes.values()


def register_op(
    lower_func: Lower,
    op_name: str,
    target: str,
    src_type_name: str,
    dest_type_name: str | None = None,
    intrinsic_name: str | None = None,
) -> None:
    """Register how an operation on a type is lowered for a kind of target.

    lower_func: a function from the node to an expression on bits. op_name: the class of the node ("Add", "Cast",
    "Call", ...). For casts, give the source type (custom or not) and the destination; for calls the intrinsic, such as
    "tir.exp".
    """
    if op_name == "Cast":
        if dest_type_name is None:
            raise ValueError("datatype.register_op: a Cast needs dest_type_name, the type that is cast to")
        _lowers[target, op_name, dest_type_name, src_type_name] = lower_func
    elif op_name == "Call" and intrinsic_name is not None:
        _lowers[target, op_name, intrinsic_name, src_type_name] = lower_func
    else:
        _lowers[target, op_name, src_type_name] = lower_func


def register_min_func(func: Callable[[int], Any], type_name: str) -> None:
    """Register a function from the number of bits to the lowest value of a type."""
    _minima[type_name] = func


def min_func(type_name: str) -> Callable[[int], Any] | None:
    """The function from register_min_func for a type."""
    return _minima.get(type_name)


def bits_of(dtype: DataType) -> DataType:
    """The unsigned integer type that stores a custom type; other types are returned as they are."""
    found = _CUSTOM.match(dtype)
    return DataType(f"uint{found[2]}").with_lanes(dtype.lanes) if found else dtype


def type_name(dtype: DataType) -> str:
    """The name of a type without its width: "float", "int", or the name of a custom type."""
    found = _CUSTOM.match(dtype)
    return found[1] if found else dtype.code


def create_lower_func(extern_func_map: Mapping[int | tuple[int, int], str]) -> Lower:
    """Make a lowering to external functions by width: {bits: name}, for casts {(bits from, bits to): name}."""

    def lower(op: Add | Cast) -> PrimExpr:
        dtype = op.dtype
        if isinstance(op, Cast):
            key: int | tuple[int, int] = (op.value.dtype.bits, dtype.bits)
            args: tuple[PrimExpr, ...] = (op.value,)
        else:
            # A comparison is identified by the width of its operands.
            args = tuple(op.args) if isinstance(op, Call) else (op.a, op.b)
            key = args[0].dtype.bits if dtype.is_bool else dtype.bits
        if key not in extern_func_map:
            raise RuntimeError(f"missing lowering function for {type(op).__name__} of {key} bits")
        return call_pure_extern(bits_of(dtype), extern_func_map[key], *args)

    return lower


def create_min_lower_func(extern_func_map: Mapping[int, str], type_name: str) -> Callable[[int], PrimExpr]:
    """Make a function for the lowest value that calls external functions by width: {bits: name}."""

    def lower(num_bits: int) -> PrimExpr:
        if num_bits not in extern_func_map:
            raise RuntimeError(f"missing minimum function for {type_name} of {num_bits} bits")
        return call_pure_extern(f"uint{num_bits}", extern_func_map[num_bits])

    return lower


def lower_ite(ite_op: Call) -> PrimExpr:
    """Lower if_then_else on a custom type to if_then_else on bits."""
    condition, yes, no = ite_op.args
    return if_then_else(condition, yes, no)


def lower_call_pure_extern(op: Call) -> Call:
    """Lower a pure external call to one with a result of bits."""
    return Call(bits_of(op.dtype), op.op, op.args)


class _Custom(BufferMutator):
    """Replaces operations on custom types by their registered lowerings, and storage by unsigned integers."""

    def __init__(self, target: str) -> None:
        super().__init__()
        self.target = target
        self.env: dict[Var, Var] = {}

    @on(Var)
    def _var(self, v: Var) -> Var:
        if v in self.env:
            return self.env[v]
        kind = v.type_annotation
        if isinstance(kind, PointerType) and isinstance(kind.element_type, PrimType):
            inner = DataType(kind.element_type.dtype)
            if bits_of(inner) is not inner:
                self.env[v] = Var(v.name, PointerType(PrimType(bits_of(inner)), kind.storage_scope))
        elif bits_of(v.dtype) is not v.dtype:
            self.env[v] = Var(v.name, bits_of(v.dtype))
        return self.env.get(v, v)

    def rewrite_buffer(self, buffer: Buffer) -> Buffer:
        new = super().rewrite_buffer(buffer)
        return new.replace(dtype=bits_of(new.dtype)) if bits_of(new.dtype) is not new.dtype else new

    def _lowered(self, node: PrimExpr, *key: str) -> PrimExpr:
        lower = _lowers.get((self.target, *key))
        if lower is None:
            raise TVMError(
                f"LowerCustomDatatypes: no lowering of {' '.join(key)} is registered for target {self.target};"
                " add it with target.datatype.register_op"
            )
        out: PrimExpr = lower(node)
        return out

    @on(Cast)
    def _cast(self, e: Cast) -> PrimExpr:
        source, to = e.value.dtype, e.dtype
        value = self.visit(e.value)
        if bits_of(source) is source and bits_of(to) is to:
            return e if value is e.value else Cast(to, value, e.span)
        return self._lowered(Cast(to, value), "Cast", type_name(to), type_name(source))

    @on(BinaryOpExpr)
    def _binary(self, e: BinaryOpExpr) -> PrimExpr:
        kind = e.a.dtype
        a, b = self.visit(e.a), self.visit(e.b)
        if bits_of(kind) is kind:
            return e if a is e.a and b is e.b else type(e)(a, b, e.span)
        return self._lowered(type(e)(a, b), type(e).__name__, type_name(kind))

    @on(Select)
    def _select(self, e: Select) -> PrimExpr:
        return self.rebuild(e)

    @on(Call)
    def _call(self, e: Call) -> Any:
        args = mutate_tuple(self.visit, e.args)
        new = e if args is e.args else Call(e.dtype, e.op, args, e.span)
        if bits_of(e.dtype) is e.dtype or call_name(e) in ("reinterpret", "type_annotation"):
            return new
        if (
            call_name(e) == "if_then_else"
            and (self.target, "Call", "tir.if_then_else", type_name(e.dtype)) not in _lowers
        ):
            return lower_ite(new)
        return self._lowered(new, "Call", str(getattr(e.op, "name", "")), type_name(e.dtype))

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        predicate = None if e.predicate is None else self.visit(e.predicate)
        return BufferLoad(self.visit(e.buffer), mutate_tuple(self.visit, e.indices), predicate, e.span)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        predicate = None if s.predicate is None else self.visit(s.predicate)
        indices = mutate_tuple(self.visit, s.indices)
        return BufferStore(self.visit(s.buffer), self.visit(s.value), indices, predicate, s.span)

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Stmt:
        var, extents = self.visit(s.buffer_var), mutate_tuple(self.visit, s.extents)
        return s.replace(buffer_var=var, dtype=bits_of(s.dtype), extents=extents, body=self.visit(s.body))

    @on(DeclBuffer)
    def _decl(self, s: DeclBuffer) -> Stmt:
        return s.replace(buffer=self.visit(s.buffer), body=self.visit(s.body))

    @on(LetStmt, Let)
    def _let(self, s: LetStmt | Let) -> Stmt | PrimExpr:
        return s.replace(value=self.visit(s.value), var=self.visit(s.var), body=self.visit(s.body))


def LowerCustomDatatypes() -> Pass:
    """Lower operations on types of target.datatype to the functions that are registered for the target, and their
    storage to unsigned integers.

    Raises TVMError for an operation without a lowering.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        target = func.attrs.get("target")
        kind = str(getattr(getattr(target, "kind", None), "name", "") or "llvm")
        walk = _Custom(kind)
        buffers = {p: walk.visit(b) for p, b in func.buffer_map.items()}
        params = tuple([p if p in buffers else walk.visit(p) for p in func.params])
        return func.replace(params=params, buffer_map=buffers, body=walk.visit(func.body))

    made: Pass = prim_func_pass(run, name="tir.LowerCustomDatatypes", gives=("no_custom_types",))
    return made
