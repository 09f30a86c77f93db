"""MakePackedAPI and MakeUnpackedAPI: the calling conventions of compiled functions.

A packed function is `int32_t __tvm_ffi_<name>(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* ret)`. A
TVMFFIAny has 16 bytes: int32 type index, padding, 8-byte value. Its checks are assertions on plain loads, so that every
back end and the interpreter can run them. The body stands in a "compute_scope".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tilewright.ir import DataType, GlobalVar, IntImm, IRModule, PrimExpr
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.ir.types import PointerType, PrimType
from tilewright.node import Mutator, on
from tilewright.runtime import Device
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir.arithmetic import cast_to, eq, floordiv, less, logical_not, logical_or, maximum, multiply
from tilewright.tir.buffer import Buffer, decl_buffer
from tilewright.tir.expr import BufferLoad, Call, Select, StringImm, Var
from tilewright.tir.function import IN_PLACE, PrimFunc
from tilewright.tir.op import call_intrin, call_packed, if_then_else, isnullptr, reinterpret, ret
from tilewright.tir.stmt import AssertStmt, AttrStmt, BufferStore, Evaluate, IfThenElse, LetStmt, Stmt, stmt_seq
from tilewright.tir.stmt_functor import used_vars
from tilewright.tir.transform.base import call_name, prim_func_pass
from tilewright.tir.transform.memory.flatten import LIMIT, is_counted

I32, I64, F64 = DataType("int32"), DataType("int64"), DataType("float64")
NONE, INT, BOOL, FLOAT, POINTER, DLTENSOR, TENSOR = 0, 1, 2, 3, 4, 7, 70
OBJECT_HEADER = 24
"""Bytes before the DLTensor in a tensor object."""
DLPACK_CODES = {
    "int": 0, "uint": 1, "float": 2, "handle": 3, "bfloat": 4, "bool": 6,
    "float8_e4m3fn": 10, "e4m3_float": 10, "float8_e5m2": 12, "e5m2_float": 12, "e2m1_float": 17,
}  # fmt: skip
CPU = 1
SET_DEVICE = "__tvm_set_device"
"""The runtime function that sets the device for kernels with plain addresses as arguments."""
PREFIX = "__tvm_ffi_"


class _Layout(NamedTuple):
    """Where the fields of a DLTensor are, in elements of their types; pointers are of the type `pointer`."""

    pointer: DataType
    shape: int
    strides: int
    device_type: int
    device_id: int
    ndim: int
    code: int
    bits: int
    lanes: int
    byte_offset: int


_LAYOUTS = {
    64: _Layout(I64, 3, 4, 2, 3, 4, 20, 21, 11, 5),
    32: _Layout(I32, 5, 6, 1, 2, 3, 16, 17, 9, 4),
}
"""By the bits of a pointer."""

Wrap = Callable[[Stmt], Stmt]


class _Packed:
    """Builds one packed function from the outside in: `wraps` are applied around the body, with the last one innermost."""

    def __init__(self, func: PrimFunc, name: str) -> None:
        self.func, self.name = func, name
        self.self_handle = Var("self", "handle")
        self.args = Var("args", PointerType(PrimType(I64)))
        self.num_args = Var("num_args", "int32")
        self.ret = Var("result", PointerType(PrimType(I64)))
        target = func.attrs.get("target")
        self.device_type = CPU if target is None else Target(target).kind.device_type
        self.layout = _LAYOUTS[64 if target is None else _pointer_bits(Target(target))]
        self.device_id = Var("device_id", "int32")
        self.wraps: list[Wrap] = []
        self.checks: list[Wrap] = []
        self.bound: set[Var] = set()
        count = max(1, len(func.params))
        self.words = decl_buffer((count * 2,), "int64", "args_i64", data=self.args)
        self.floats = decl_buffer((count * 2,), "float64", "args_f64", data=self.args)
        self.halves = decl_buffer((count * 4,), "int32", "args_i32", data=self.args)

    # --- pieces

    def require(
        self, condition: PrimExpr, kind: str, text: str, got: PrimExpr | None = None, late: bool = False
    ) -> None:
        if isinstance(condition, IntImm) and condition.value:
            return
        message: PrimExpr = StringImm(text if got is None else text + ", but is ")
        if got is not None:
            message = _tuple(StringImm(kind), message, cast_to(got, I64))
        else:
            message = _tuple(StringImm(kind), message)
        (self.checks if late else self.wraps).append(lambda body: AssertStmt(condition, message, body))

    def let(self, var: Var, value: PrimExpr) -> Var:
        self.wraps.append(lambda body: LetStmt(var, value, body))
        return var

    def bind(self, param: PrimExpr, value: PrimExpr, what: str) -> None:
        """Defines a variable at its first use, and checks that later values agree."""
        if isinstance(param, Var) and param not in self.bound:
            self.bound.add(param)
            self.let(param, cast_to(value, param.dtype))
            if param.dtype.bits < 64:
                wide = cast_to(param, I64)
                self.require(
                    eq(wide, cast_to(value, I64)),
                    "ValueError",
                    f"{self.name}: {what} is too large for {param.dtype}",
                    value,
                )
            return
        expected = f"{param.value}" if isinstance(param, IntImm) else f"equal to {param}"
        self.require(
            eq(cast_to(param, I64), cast_to(value, I64)),
            "ValueError",
            f"{self.name}: {what} must be {expected}",
            value,
            late=not isinstance(param, IntImm),
        )

    def load(self, pointer: Var, dtype: DataType, index: int, name: str) -> PrimExpr:
        buffer = decl_buffer((index + 1,), dtype, name, data=pointer)
        return BufferLoad(buffer, (IntImm("int32", index),))

    def pointer(self, base: Var, index: int, name: str) -> PrimExpr:
        """An address as int64; what is above the bits of a pointer says nothing."""
        return cast_to(self.load(base, self.layout.pointer, index, f"{name}{self.layout.pointer.bits}"), I64)

    # --- arguments

    def scalar(self, k: int, param: Var) -> None:
        type_index = BufferLoad(self.halves, (IntImm("int32", 4 * k),))
        word = BufferLoad(self.words, (IntImm("int32", 2 * k + 1),))
        what = f"{self.name}: argument {k} ({param.name})"
        if param.dtype.is_float:
            ok = logical_or(logical_or(eq(type_index, FLOAT), eq(type_index, INT)), eq(type_index, BOOL))
            self.require(ok, "TypeError", f"{what} must be a number: its type index", type_index)
            real = BufferLoad(self.floats, (IntImm("int32", 2 * k + 1),))
            value = Select(eq(type_index, FLOAT), real, cast_to(word, F64))
            self.bound.add(param)
            self.let(param, cast_to(value, param.dtype))
        else:
            ok = logical_or(eq(type_index, INT), eq(type_index, BOOL))
            self.require(ok, "TypeError", f"{what} must be an int: its type index", type_index)
            self.bind(param, word, f"argument {k} ({param.name})")

    def handle(self, k: int, param: Var) -> None:
        type_index = BufferLoad(self.halves, (IntImm("int32", 4 * k),))
        ok = logical_or(logical_or(eq(type_index, POINTER), eq(type_index, NONE)), eq(type_index, DLTENSOR))
        self.require(
            ok, "TypeError", f"{self.name}: argument {k} ({param.name}) must be a pointer: its type index", type_index
        )
        self.bound.add(param)
        self.let(param, reinterpret("handle", BufferLoad(self.words, (IntImm("int32", 2 * k + 1),))))

    def tensor(self, k: int, param: Var, buffer: Buffer) -> None:
        where = f"argument {k} ({buffer.name})"
        what = f"{self.name}: {where}"
        type_index = BufferLoad(self.halves, (IntImm("int32", 4 * k),))
        ok = logical_or(eq(type_index, TENSOR), eq(type_index, DLTENSOR))
        self.require(
            ok, "TypeError", f"{what} must be a tensor: its type index must be {DLTENSOR} or {TENSOR}", type_index
        )
        word = BufferLoad(self.words, (IntImm("int32", 2 * k + 1),))
        header = Select(eq(type_index, TENSOR), IntImm("int64", OBJECT_HEADER), IntImm("int64", 0))
        base = self.let(Var(f"{buffer.name}_tensor", PointerType(PrimType(I64))), reinterpret("handle", word + header))
        ndim = self.load(base, I32, self.layout.ndim, f"{buffer.name}_i32")
        self.require(
            eq(ndim, len(buffer.shape)),
            "ValueError",
            f"{what}: its number of dimensions must be {len(buffer.shape)}",
            ndim,
        )
        self.dtype(base, buffer, what)
        device = self.load(base, I32, self.layout.device_type, f"{buffer.name}_i32")
        kind = self.device_type
        name = Device.DEVICE_TYPE_TO_NAME.get(kind, "unknown")
        self.require(eq(device, kind), "ValueError", f"{what}: its device type must be {kind} ({name})", device)
        if kind != CPU:
            number = self.load(base, I32, self.layout.device_id, f"{buffer.name}_i32")
            self.bind(self.device_id, number, f"{where}: the number of its device")
        shape = Var(f"{buffer.name}_shape", PointerType(PrimType(I64)))
        if buffer.shape:
            self.let(shape, reinterpret("handle", self.pointer(base, self.layout.shape, f"{buffer.name}_i")))
        for axis, dim in enumerate(buffer.shape):
            self.bind(dim, self.load(shape, I64, axis, f"{buffer.name}_shape"), f"{where}: dimension {axis}")
        if is_counted(buffer):
            self.count(shape, buffer, what)
        if buffer.shape:
            self.strides(base, shape, buffer, where)
        offset = self.load(base, I64, self.layout.byte_offset, f"{buffer.name}_i64")
        start = self.pointer(base, 0, f"{buffer.name}_i")
        if isinstance(buffer.elem_offset, Var):
            self.bind(
                buffer.elem_offset, floordiv(offset, IntImm("int64", buffer.dtype.bytes)), f"{where}: element offset"
            )
        else:
            start = start + offset
        self.bound.add(buffer.data)
        self.let(buffer.data, reinterpret("handle", start))
        self.bound.add(param)

    def count(self, shape: Var, buffer: Buffer, what: str) -> None:
        """Checks that indices of 32 bits reach all elements. Each extent has 32 bits, so a product that is small times one fits in 64."""
        sizes = [maximum(self.load(shape, I64, k, f"{buffer.name}_shape"), 1) for k in range(len(buffer.shape))]
        total = sizes[0]
        for size in sizes[1:]:
            total = multiply(total, size)
            text = f"{what}: its number of elements must be less than {LIMIT}, since extents of its shape are int32, not int64"
            self.require(less(total, LIMIT), "ValueError", text, total)

    def dtype(self, base: Var, buffer: Buffer, what: str) -> None:
        """A DLDataType is a byte of kind, a byte of bits and two bytes of lanes."""
        want = buffer.dtype
        code, bits = DLPACK_CODES[want.code], 8 if want.is_bool else want.bits
        name = f"{buffer.name}_dtype"
        text = f"{what}: its dtype must be {want}"
        found = [self.load(base, DataType("uint8"), at, name) for at in (self.layout.code, self.layout.bits)]
        same_code, same_bits = eq(found[0], code), eq(found[1], bits)
        if want.is_bool:
            same_code, same_bits = logical_or(same_code, eq(found[0], 1)), logical_or(same_bits, eq(found[1], 1))
        self.require(
            same_code,
            "TypeError",
            f"{text}: its type code (DLPack: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool) must be {code}",
            found[0],
        )
        self.require(same_bits, "TypeError", f"{text}: its bits must be {bits}", found[1])
        lanes = self.load(base, DataType("uint16"), self.layout.lanes, name)
        self.require(eq(lanes, want.lanes), "TypeError", f"{text}: its lanes must be {want.lanes}", lanes)

    def strides(self, base: Var, shape: Var, buffer: Buffer, where: str) -> None:
        strides = Var(f"{buffer.name}_strides", PointerType(PrimType(I64)))
        self.let(strides, reinterpret("handle", self.pointer(base, self.layout.strides, f"{buffer.name}_i")))
        none = isnullptr(strides)
        name = f"{buffer.name}_strides"
        sizes = [self.load(shape, I64, k, f"{buffer.name}_shape") for k in range(len(buffer.shape))]
        compact: list[PrimExpr] = []
        step: PrimExpr = IntImm("int64", 1)
        for size in reversed(sizes):
            compact.insert(0, step)
            step = multiply(step, size)
        if buffer.strides:
            for axis, stride in enumerate(buffer.strides):
                given = if_then_else(none, compact[axis], self.load(strides, I64, axis, name))
                self.bind(stride, given, f"{where}: stride {axis}")
            return
        inner: Stmt = Evaluate(IntImm("int32", 0))
        for axis in range(len(buffer.shape)):
            given = self.load(strides, I64, axis, name)
            text = f"{self.name}: {where} must be compact and row-major: stride {axis} of it"
            message = _tuple(StringImm("ValueError"), StringImm(f"{text} is "), given)
            ok = logical_or(eq(given, compact[axis]), eq(sizes[axis], IntImm("int64", 1)))
            inner = AssertStmt(ok, message, inner)
        checks = inner
        self.wraps.append(lambda body: stmt_seq(IfThenElse(logical_not(none), checks), body))

    def build(self) -> PrimFunc:
        func = self.func
        expected = len(func.params)
        self.require(
            eq(self.num_args, expected),
            "TypeError",
            f"{self.name}: the number of arguments must be {expected}",
            self.num_args,
        )
        for k, param in enumerate(func.params):
            buffer = func.buffer_map.get(param)
            if buffer is not None:
                self.tensor(k, param, buffer)
            elif param.dtype.code == "handle":
                self.handle(k, param)
            else:
                self.scalar(k, param)
        free = _free_vars(func) - self.bound
        if free:
            raise TVMError(
                f"{self.name}: {', '.join(sorted([v.name for v in free]))} cannot be found from the arguments;"
                " make it a parameter, or a dimension of one by itself"
            )
        body: Stmt = _Returns(self.ret).visit(func.body)
        if self.device_id in self.bound:
            body = stmt_seq(Evaluate(call_packed(SET_DEVICE, self.device_type, self.device_id)), body)
        body = AttrStmt(IntImm("int32", 0), "compute_scope", StringImm(f"{self.name}_compute_"), body)
        for wrap in reversed([*self.wraps, *self.checks]):
            body = wrap(body)
        # Only functions with this attribute have arguments that never overlap; callers of others may pass one array twice.
        attrs = {**func.attrs, "tir.noalias": func.attrs.get("tir.noalias", False)}
        if attrs.pop(IN_PLACE, ()):
            # The numbers are those of parameters that are gone.
            attrs["tir.noalias"] = False
        attrs["calling_conv"] = 1
        attrs["tilewright.packed_name"] = self.name
        attrs["global_symbol"] = PREFIX + self.name
        return PrimFunc((self.self_handle, self.args, self.num_args, self.ret), body, None, {}, attrs, func.span)


def _pointer_bits(target: Target) -> int:
    """Of the processor that runs the packed function: the host's of a device."""
    return (target.host or target).cpu.pointer_bits


def _tuple(*items: PrimExpr) -> PrimExpr:
    """The message of an assertion: kind of the error, text, and a number after the text."""
    return call_intrin("handle", "tir.tvm_tuple", *items)


class _Returns(Mutator):
    """Replaces ret(value) by a store of the value to the result, and the return code 0."""

    def __init__(self, ret: Var) -> None:
        self.word = decl_buffer((2,), "int64", "result_i64", data=ret)
        self.real = decl_buffer((2,), "float64", "result_f64", data=ret)
        self.half = decl_buffer((4,), "int32", "result_i32", data=ret)

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> Stmt:
        if call_name(s.value) != "ret":
            return s
        value: PrimExpr = s.value.args[0]  # type: ignore[attr-defined]
        one, zero = IntImm("int32", 1), IntImm("int32", 0)
        if value.dtype.is_float:
            kind, store = FLOAT, BufferStore(self.real, cast_to(value, F64), (one,))
        else:
            kind, store = (BOOL if value.dtype.is_bool else INT), BufferStore(self.word, cast_to(value, I64), (one,))
        code = Evaluate(ret(zero))
        return stmt_seq(BufferStore(self.half, IntImm("int32", kind), (zero,)), store, code)


def _free_vars(func: PrimFunc) -> set[Var]:
    from tilewright.tir.analysis import undefined_vars

    return set(undefined_vars(func.body))


def MakePackedAPI() -> Pass:
    """Make packed functions of functions with a global symbol. They check their arguments."""

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        name = func.attrs.get("global_symbol")
        if name is None or "calling_conv" in func.attrs:
            return func
        packed = _Packed(func, str(name)).build()
        return packed if ctx.config.get("tir.noalias", True) else packed.with_attr("tir.noalias", False)

    made: Pass = prim_func_pass(run, name="tir.MakePackedAPI", needs=("no_blocks",), gives=("packed_api",))
    return made


WEAK = "tilewright.weak"
"""Attribute of functions of which each of several objects in a library may have one; the linker keeps the first."""


def ExposeEntryFunc() -> Pass:
    """Export the packed entry function of a module as "main", too."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        packed = {f.attrs["global_symbol"]: g for g, f in mod.functions.items() if f.attrs.get("calling_conv") == 1}
        entries = [name for name, g in packed.items() if mod[g].attrs.get("tir.is_entry_func")]
        if len(entries) != 1 or PREFIX + "main" in packed:
            return mod
        gvar = packed[entries[0]]
        func = mod[gvar]
        params = [Var(p.name, p.type_annotation) for p in func.params]
        attrs = {k: v for k, v in func.attrs.items() if k not in ("tir.is_entry_func", "tilewright.packed_name")}
        attrs[WEAK] = True
        body = Evaluate(ret(Call("int32", gvar, params)))
        forward = PrimFunc(params, body, None, {}, {**attrs, "global_symbol": PREFIX + "main"})
        return mod.with_functions({**mod.functions, GlobalVar(PREFIX + "main"): forward})

    return Pass(PassInfo(0, "tir.ExposeEntryFunc", needs=("packed_api",)), run)


def MakeUnpackedAPI() -> Pass:
    """Make functions of data pointers, exported as `int32_t name(void** args)`, of functions with a global symbol."""

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        if func.attrs.get("global_symbol") is None or "calling_conv" in func.attrs:
            return func
        for param, buffer in func.buffer_map.items():
            for dim in (*buffer.shape, *buffer.strides):
                for v in used_vars(dim):
                    if v not in func.params:
                        raise TVMError(
                            f"{func.attrs['global_symbol']}: buffer {buffer.name} (parameter {param.name}) depends on {v.name},"
                            " which raw pointers do not contain; make it a parameter or fix the shape"
                        )
        return func.with_attr("calling_conv", "aot")

    made: Pass = prim_func_pass(run, name="tir.MakeUnpackedAPI", needs=("no_blocks",), gives=("unpacked_api",))
    return made
