"""LowerTVMBuiltin and LegalizePackedCalls: lower calls of packed functions to stores to argument stacks."""

from __future__ import annotations

from typing import Any

from tilewright.ir import DataType, IntImm, IRModule, PointerType, PrimExpr, PrimType
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import Mutator, on
from tilewright.tir.arithmetic import cast_to, const, const_true, multiply
from tilewright.tir.buffer import Buffer, decl_buffer
from tilewright.tir.builtin import TVMBackendAllocWorkspace, TVMBackendFreeWorkspace, tvm_stack_alloca, tvm_struct_set
from tilewright.tir.expr import BufferLoad, Call, StringImm, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import address_of, isnullptr, reinterpret
from tilewright.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    LetStmt,
    Stmt,
    stmt_seq,
)
from tilewright.tir.transform.base import call_name, prim_func_pass
from tilewright.tir.transform.thread.thread_sync import scope_of

(ARRAY_ADDRESS, ARRAY_DATA, ARRAY_SHAPE, ARRAY_STRIDES, ARRAY_NDIM, ARRAY_CODE, ARRAY_BITS, ARRAY_LANES, ARRAY_OFFSET,
 ARRAY_DEVICE_ID, ARRAY_DEVICE_TYPE) = range(11)  # fmt: skip
VALUE_CONTENT = 12
"""Fields of tvm_struct_get and tvm_struct_set: the fields of a tensor descriptor, and the content of an argument."""
INT, UINT, FLOAT, HANDLE, NULL, ARRAY, STRING = 0, 1, 2, 3, 4, 7, 11
"""Type codes of arguments."""
_CODES = {"int": INT, "uint": UINT, "bool": UINT, "float": FLOAT, "handle": HANDLE, "bfloat": 4}
MAX_STACK_BYTES = 1024
_PACKED = {"tvm_call_packed": "tvm_call_packed_lowered", "tvm_call_cpacked": "tvm_call_cpacked_lowered"}


class _Stacks:
    """The stacks of one function or parallel loop body. `most`: the largest need of one statement."""

    def __init__(self) -> None:
        self.value, self.arrays = Var("stack_value", "handle"), Var("stack_array", "handle")
        self.codes = decl_buffer(
            (1,), "int32", "stack_tcode", data=Var("stack_tcode", PointerType(PrimType(DataType("int32"))))
        )
        self.shapes = decl_buffer(
            (1,), "int64", "stack_shape", data=Var("stack_shape", PointerType(PrimType(DataType("int64"))))
        )
        self.now = {"arg_value": 0, "array": 0, "shape": 0}
        self.most = dict(self.now)

    def take(self, what: str, count: int) -> int:
        at = self.now[what]
        self.now[what] = at + count
        self.most[what] = max(self.most[what], at + count)
        return at

    def around(self, body: Stmt) -> Stmt:
        """The body, with stacks of the size that it uses."""
        if self.most["arg_value"]:
            body = self._sized(self.codes, self.most["arg_value"], body)
            body = LetStmt(self.value, tvm_stack_alloca("arg_value", self.most["arg_value"]), body)
        if self.most["array"]:
            body = LetStmt(self.arrays, tvm_stack_alloca("array", self.most["array"]), body)
        if self.most["shape"]:
            body = self._sized(self.shapes, self.most["shape"], body)
        return body

    @staticmethod
    def _sized(buffer: Buffer, count: int, body: Stmt) -> Stmt:
        sized = buffer.replace(shape=(IntImm("int32", count),))

        class Resize(Mutator):
            @on(Buffer)
            def _buffer(self, b: Buffer) -> Buffer:
                return sized if b is buffer else b

        return Allocate(buffer.data, buffer.dtype, sized.shape, const_true(), Resize().visit(body))


class _Lower(Mutator):
    """Inserts the stores of stack values right before the statements with the calls."""

    def __init__(self, device_type: PrimExpr, device_id: PrimExpr) -> None:
        self.stacks = _Stacks()
        self.before: list[Stmt] = []
        self.device = [device_type, device_id]

    def within(self, body: Stmt) -> Stmt:
        outer, self.stacks = self.stacks, _Stacks()
        new = self.stacks.around(self.visit(body))
        self.stacks = outer
        return new

    def _statement(self, s: Stmt) -> Stmt:
        outer, self.before = self.before, []
        kept = dict(self.stacks.now)
        new = self.rebuild(s)
        self.stacks.now = kept
        first, self.before = self.before, outer
        return stmt_seq(*first, new) if first else new

    @on(Evaluate, BufferStore)
    def _leaf(self, s: Evaluate | BufferStore) -> Stmt:
        return self._statement(s)

    @on(LetStmt, AssertStmt)
    def _scoped(self, s: LetStmt | AssertStmt) -> Stmt:
        outer, self.before = self.before, []
        kept = dict(self.stacks.now)
        key = "value" if isinstance(s, LetStmt) else "condition"
        value = self.visit(getattr(s, key))
        first, self.before = self.before, outer
        self.stacks.now = kept
        new = s.replace(**{key: value, "body": self.visit(s.body)})
        return stmt_seq(*first, new) if first else new

    @on(For)
    def _for(self, s: For) -> Stmt:
        return s.replace(body=self.within(s.body)) if s.kind == ForKind.PARALLEL else s.replace(body=self.visit(s.body))

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        if s.attr_key in ("device_type", "device_id"):
            k = int(s.attr_key == "device_id")
            outer, self.device[k] = self.device[k], s.value
            body = self.visit(s.body)
            self.device[k] = outer
            return body
        return s.replace(body=self.visit(s.body))

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Stmt:
        body = self.visit(s.body)
        size = s.dtype.bytes * s.dtype.lanes
        known: int | None = size
        for e in s.extents:
            known = known * e.value if known is not None and isinstance(e, IntImm) else None
        if scope_of(s.buffer_var) != "global" or (known is not None and known <= MAX_STACK_BYTES):
            return s.replace(body=body)
        total = const(size, "uint64")
        for e in s.extents:
            total = multiply(total, cast_to(e, "uint64"))
        code = _CODES.get(s.dtype.code, HANDLE)
        get = TVMBackendAllocWorkspace(self.device[0], self.device[1], total, code, s.dtype.bits)
        fail = StringImm(f"out of memory: the workspace of {s.buffer_var.name}")
        free = Evaluate(TVMBackendFreeWorkspace(self.device[0], self.device[1], s.buffer_var))
        body = AssertStmt(~isnullptr(s.buffer_var), fail, stmt_seq(body, free))
        return LetStmt(s.buffer_var, get, body)

    def _packed(self, e: Call) -> tuple[int, int]:
        """Stores the arguments. Returns the positions of their begin and end."""
        args = e.args[1:]
        at = self.stacks.take("arg_value", len(args))
        for k, arg in enumerate(args):
            value = self.visit(arg)
            code = _CODES.get(value.dtype.code, HANDLE)
            if call_name(arg) == "tvm_stack_make_array":
                code = ARRAY
            elif isinstance(arg, StringImm):
                code = STRING
            elif call_name(arg) == "reinterpret" and code == HANDLE and isinstance(arg.args[0], IntImm):  # type: ignore[attr-defined]
                code = NULL
            if code in (INT, UINT):
                value, code = cast_to(value, "int64"), INT
            elif code == FLOAT:
                value = cast_to(value, "float64")
            self.before.append(Evaluate(tvm_struct_set(self.stacks.value, at + k, VALUE_CONTENT, value)))
            self.before.append(BufferStore(self.stacks.codes, IntImm("int32", code), (IntImm("int32", at + k),)))
        return at, at + len(args)

    @on(Call)
    def _call(self, e: Call) -> Any:
        name = call_name(e)
        if name in _PACKED:
            begin, end = self._packed(e)
            codes = self.stacks.codes.data
            return Call(e.dtype, _PACKED[name], (e.args[0], self.stacks.value, codes, begin, end), e.span)
        if name == "tvm_stack_make_shape":
            at = self.stacks.take("shape", len(e.args))
            for k, dim in enumerate(e.args):
                wide = cast_to(self.visit(dim), "int64")
                self.before.append(BufferStore(self.stacks.shapes, wide, (IntImm("int32", at + k),)))
            return address_of(BufferLoad(self.stacks.shapes, (IntImm("int32", at),)))
        if name == "tvm_stack_make_array":
            return self._array(e)
        return self.rebuild(e)

    def _array(self, e: Call) -> PrimExpr:
        data, shape, strides, ndim, example, offset = [self.visit(a) for a in e.args]
        dtype = e.args[4].dtype
        at, arrays = self.stacks.take("array", 1), self.stacks.arrays
        size = dtype.bytes * dtype.lanes
        zero = reinterpret("handle", const(0, "int64")) if isinstance(strides, IntImm) else strides
        fields = [
            (ARRAY_DATA, data), (ARRAY_SHAPE, shape), (ARRAY_STRIDES, zero), (ARRAY_NDIM, ndim),
            (ARRAY_CODE, IntImm("uint8", _CODES.get(dtype.code, HANDLE))), (ARRAY_BITS, IntImm("uint8", dtype.bits)),
            (ARRAY_LANES, IntImm("uint16", dtype.lanes)),
            (ARRAY_OFFSET, cast_to(multiply(cast_to(offset, "int64"), const(size, "int64")), "uint64")),
            (ARRAY_DEVICE_ID, self.device[1]), (ARRAY_DEVICE_TYPE, self.device[0]),
        ]  # fmt: skip
        self.before += [Evaluate(tvm_struct_set(arrays, at, field, value)) for field, value in fields]
        return Call("handle", "tvm_struct_get", (arrays, at, ARRAY_ADDRESS))


def LowerTVMBuiltin() -> Pass:
    """Lower calls of packed functions: store the arguments to a stack, and pass their position. Move large storage to
    workspaces.

    The attributes "device_type" and "device_id" give the device of workspaces. The default is the CPU (1), device 0.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        return func.replace(body=_Lower(IntImm("int32", 1), IntImm("int32", 0)).within(func.body))

    made: Pass = prim_func_pass(run, name="tir.LowerTVMBuiltin", gives=("no_packed_calls",))
    return made


class _Wrap(Mutator):
    def __init__(self, shapes: dict[Var, Buffer]) -> None:
        self.shapes = shapes

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Stmt:
        if s.buffer_var not in self.shapes:
            self.shapes[s.buffer_var] = decl_buffer(s.extents, s.dtype, s.buffer_var.name, data=s.buffer_var)
        return self.rebuild(s)

    @on(Call)
    def _call(self, e: Call) -> Any:
        if call_name(e) not in _PACKED:
            return self.rebuild(e)
        args = [self._argument(a) for a in e.args[1:]]
        if all([a is b for a, b in zip(args, e.args[1:], strict=True)]):
            return e
        return Call(e.dtype, e.op, (e.args[0], *args), e.span)

    def _argument(self, a: PrimExpr) -> PrimExpr:
        buffer = self.shapes.get(a) if isinstance(a, Var) else None
        if buffer is None:
            out: PrimExpr = self.visit(a)
            return out
        from tilewright.tir.op import _pack_buffer

        return _pack_buffer(buffer.replace(elem_offset=IntImm(buffer.elem_offset.dtype, 0)))


def LegalizePackedCalls() -> Pass:
    """Replace pointers to buffers that are passed to packed functions by tensor descriptors of the buffers."""

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        shapes = dict(func.buffer_map)
        shapes |= {b.data: b for b in func.buffer_map.values()}
        return func.replace(body=_Wrap(shapes).visit(func.body))

    made: Pass = prim_func_pass(run, name="tir.LegalizePackedCalls")
    return made
