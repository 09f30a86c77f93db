"""LLVM IR text for the ABI of packed functions: fields of DLTensor and TVMFFIAny, tensors on the stack, calls of packed functions."""

from __future__ import annotations

from tilewright.codegen.llvm.expressions.expr import ExprEmitter
from tilewright.codegen.llvm.expressions.operands import Operands
from tilewright.codegen.llvm.expressions.types import is_literal, llvm_type
from tilewright.codegen.llvm.functions.frame import CALL_FROM, Frame
from tilewright.codegen.llvm.functions.variables import Variables
from tilewright.codegen.llvm.memory.accesses import MemoryEmitter
from tilewright.ir import DataType, IntImm, PrimExpr
from tilewright.runtime.linking.symbols import LIBRARY
from tilewright.tir import Call, StringImm, Var

DATA, SHAPE, STRIDES, NDIM, TYPE_CODE, TYPE_BITS, TYPE_LANES, BYTE_OFFSET, DEVICE_ID, DEVICE_TYPE = range(1, 11)
VALUE, TYPE_INDEX, PADDING = 12, 13, 14
"""Field numbers of tir.tvm_struct_get and tvm_struct_set: the classic ones, then those of TVMFFIAny."""

_LAYOUT = {
    64: ({DATA: 0, DEVICE_TYPE: 8, DEVICE_ID: 12, NDIM: 16, TYPE_CODE: 20, TYPE_BITS: 21, TYPE_LANES: 22, SHAPE: 24,
          STRIDES: 32, BYTE_OFFSET: 40}, 48),
    32: ({DATA: 0, DEVICE_TYPE: 4, DEVICE_ID: 8, NDIM: 12, TYPE_CODE: 16, TYPE_BITS: 17, TYPE_LANES: 18, SHAPE: 20,
          STRIDES: 24, BYTE_OFFSET: 32}, 40),
}  # fmt: skip
_FIELD_TYPES = {
    **dict.fromkeys((DATA, SHAPE, STRIDES), "handle"),
    **dict.fromkeys((NDIM, DEVICE_ID, DEVICE_TYPE, TYPE_INDEX, PADDING), "int32"),
    **dict.fromkeys((TYPE_CODE, TYPE_BITS), "uint8"),
    TYPE_LANES: "uint16",
    BYTE_OFFSET: "uint64",
}
_ANY_BYTES = 16
_FFI_INT, _FFI_BOOL, _FFI_FLOAT, _FFI_POINTER, _FFI_TENSOR, _FFI_STRING = 1, 2, 3, 4, 7, 8
_DL_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
_I64, _F64, _HANDLE = DataType("int64"), DataType("float64"), DataType("handle")
_STACK_BYTES = {"shape": 8, "array": 48, "arg_value": _ANY_BYTES, "arg_tcode": 4, "tvm_ffi_any": _ANY_BYTES}


class PackedEmitter:
    """Emits calls and struct accesses of the ABI of packed functions."""

    def __init__(
        self, frame: Frame, variables: Variables, operands: Operands, expressions: ExprEmitter, memory: MemoryEmitter
    ) -> None:
        self.frame, self.variables, self.operands, self.memory = frame, variables, operands, memory
        self.b, self.iptr, self.expr = frame.b, frame.iptr, expressions.expr

    def _offset(self, pointer: str, offset: int) -> str:
        return self.b.pure(f"getelementptr i8, ptr {pointer}, {self.iptr} {offset}", pointer) if offset else pointer

    def _field(self, e: Call) -> tuple[str, DataType, int]:
        """(address, type in memory, number) of the field that is named by the first three arguments."""
        base, index, kind = self.expr(e.args[0]), self.expr(e.args[1]), e.args[2]
        if not isinstance(kind, IntImm):
            raise self.frame.error("the field of a struct access must be a constant", e)
        fields, size = _LAYOUT[self.frame.target.cpu.pointer_bits]
        if kind.value in (VALUE, TYPE_INDEX, PADDING):
            size, inside = _ANY_BYTES, {VALUE: 8, TYPE_INDEX: 0, PADDING: 4}[kind.value]
        elif kind.value in fields:
            inside = fields[kind.value]
        else:
            inside = 0
        if is_literal(index):
            pointer = self._offset(base, int(index) * size + inside)
        else:
            wide = self.operands.resize(index, llvm_type(e.args[1].dtype), self.iptr, True)
            scaled = self.b.pure(f"mul {self.iptr} {wide}, {size}", wide)
            pointer = self.b.pure(f"getelementptr i8, ptr {base}, {self.iptr} {scaled}", base, scaled)
            pointer = self._offset(pointer, inside)
        return pointer, DataType(_FIELD_TYPES.get(kind.value, "int64")), kind.value

    def on_struct_get(self, e: Call) -> str:
        pointer, kept, field = self._field(e)
        if field == 0:
            return pointer
        if field == VALUE:
            kept = _F64 if e.dtype.is_float else _HANDLE if e.dtype.code == "handle" else _I64
        value = self.b.here(f"load {llvm_type(kept)}, ptr {pointer}")
        return self.operands.convert(value, kept, e.dtype)

    def on_struct_set(self, e: Call) -> str:
        pointer, kept, field = self._field(e)
        value, source = self.expr(e.args[3]), e.args[3].dtype
        if field == VALUE:
            kept = _F64 if source.is_float else _HANDLE if source.code == "handle" else _I64
        if source.code == "handle" and kept.code == "handle":
            value = self.pointer_operand(e.args[3])
        else:
            value = self.operands.convert(value, source, kept)
        self.b.effect(f"store {llvm_type(kept)} {value}, ptr {pointer}")
        return "0"

    def pointer_operand(self, e: PrimExpr) -> str:
        """The operand of a handle or of a buffer's data variable."""
        return self.variables.pointer(e)[0] if isinstance(e, Var) else self.expr(e)

    def on_stack_alloca(self, e: Call) -> str:
        kind, count = e.args
        if not isinstance(kind, StringImm) or not isinstance(count, IntImm) or kind.value not in _STACK_BYTES:
            raise self.frame.error(f"tvm_stack_alloca takes one of {', '.join(_STACK_BYTES)} and a constant", e)
        return self.b.alloca(f"alloca [{max(count.value, 1) * _STACK_BYTES[kind.value]} x i8], align 16")

    def on_make_shape(self, e: Call) -> str:
        shape = self.b.alloca(f"alloca [{max(len(e.args), 1)} x i64], align 8")
        for k, dim in enumerate(e.args):
            value = self.operands.convert(self.expr(dim), dim.dtype, _I64)
            self.b.effect(f"store i64 {value}, ptr {self._offset(shape, 8 * k)}")
        return shape

    def on_make_array(self, e: Call) -> str:
        data, shape, strides, ndim, of_type, offset = e.args
        dtype = of_type.dtype
        fields, size = _LAYOUT[self.frame.target.cpu.pointer_bits]
        tensor = self.b.alloca(f"alloca [{size} x i8], align 16")
        bytes_each = dtype.bytes * dtype.lanes
        start = self.operands.convert(self.expr(offset), offset.dtype, _I64)
        start = (
            str(int(start) * bytes_each) if is_literal(start) else self.b.pure(f"mul i64 {start}, {bytes_each}", start)
        )
        steps = "null" if isinstance(strides, IntImm) else self.expr(strides)
        for field, text in (
            (DATA, f"ptr {self.pointer_operand(data)}"),
            (DEVICE_TYPE, "i32 1"),
            (DEVICE_ID, "i32 0"),
            (NDIM, f"i32 {self.expr(ndim)}"),
            (TYPE_CODE, f"i8 {_DL_CODES.get(dtype.code, 3)}"),
            (TYPE_BITS, f"i8 {8 if dtype.is_bool else dtype.bits}"),
            (TYPE_LANES, f"i16 {dtype.lanes}"),
            (SHAPE, f"ptr {self.expr(shape)}"),
            (STRIDES, f"ptr {steps}"),
            (BYTE_OFFSET, f"i64 {start}"),
        ):
            self.b.effect(f"store {text}, ptr {self._offset(tensor, fields[field])}")
        return tensor

    def on_call_packed(self, e: Call) -> str:
        """Calls a packed function by name through the runtime's context: one of this library, of its imports, or a global one."""
        name = e.args[0]
        if not isinstance(name, StringImm):
            raise self.frame.error("a packed call names its function with a string", e)
        return self._invoke(name.value, *self._pack(e.args[1:]), e)

    def _pack(self, args: tuple[PrimExpr, ...]) -> tuple[str, str, str]:
        """Stores arguments on the stack. Returns (their array, their number, the entry for the result, which is None)."""
        array = self.b.alloca(f"alloca [{(len(args) + 1) * _ANY_BYTES} x i8], align 16")
        for k, arg in enumerate(args):
            index, value, kept = self._as_any(arg)
            at = self._offset(array, _ANY_BYTES * k)
            self.b.effect(f"store i64 {index}, ptr {at}")
            self.b.effect(f"store {llvm_type(kept)} {value}, ptr {self._offset(at, 8)}")
        result = self._offset(array, _ANY_BYTES * len(args))
        self.b.effect(f"store i64 0, ptr {result}")
        self.b.effect(f"store i64 0, ptr {self._offset(result, 8)}")
        return array, str(len(args)), result

    def on_call_trace(self, e: Call) -> str:
        """Calls a packed function with a value as last argument. The result is the function's, or the value if it returns None."""
        name, *args = e.args
        if not isinstance(name, StringImm):
            raise self.frame.error("a traced call names its function with a string", e)
        array, count, result = self._pack(tuple(args))
        returned = self._invoke(name.value, array, count, result, e)
        index = self.b.here(f"load i32, ptr {result}")
        given = self.b.here(f"icmp ne i32 {index}, 0")
        kind = llvm_type(e.dtype)
        return self.b.here(f"select i1 {given}, {kind} {returned}, {kind} {self.expr(args[-1])}")

    def _invoke(self, name: str, array: str, count: str, result: str, e: Call) -> str:
        self.memory.forget(None)
        function = self.frame.context(CALL_FROM)
        known = self.b.here(f"icmp ne ptr {function}, null")
        self.frame.require(
            known, "RuntimeError", f"{self.frame.name}: no runtime is there to call the packed function {name!r}"
        )
        self.frame.module.uses_module = True
        given = f"ptr @{LIBRARY}, ptr {self.frame.module.string(name)}, ptr {array}, i32 {count}, ptr {result}"
        code = self.b.here(f"call i32 {function}({given})")
        self.frame.check(code)
        if e.dtype.code == "void":
            return "0"
        kept = _F64 if e.dtype.is_float else _HANDLE if e.dtype.code == "handle" else _I64
        value = self.b.here(f"load {llvm_type(kept)}, ptr {self._offset(result, 8)}")
        return self.operands.convert(value, kept, e.dtype)

    def _as_any(self, arg: PrimExpr) -> tuple[int, str, DataType]:
        """(type index, operand, type) of an argument."""
        dtype = arg.dtype
        if isinstance(arg, StringImm):
            return _FFI_STRING, self.frame.module.string(arg.value), _HANDLE
        if isinstance(arg, Call) and arg.intrinsic == "tvm_stack_make_array":
            return _FFI_TENSOR, self.expr(arg), _HANDLE
        if dtype.code == "handle":
            return _FFI_POINTER, self.pointer_operand(arg), _HANDLE
        value = self.expr(arg)
        if dtype.is_float:
            return _FFI_FLOAT, self.operands.convert(value, dtype, _F64), _F64
        return _FFI_BOOL if dtype.is_bool else _FFI_INT, self.operands.convert(value, dtype, _I64), _I64

    def on_call_lowered(self, e: Call) -> str:
        """Calls (name, stack of TVMFFIAny, -, begin, end); the result is stored in entry `end`."""
        name, stack, begin, end = e.args[0], self.expr(e.args[1]), e.args[3], e.args[4]
        if not (isinstance(name, StringImm) and isinstance(begin, IntImm) and isinstance(end, IntImm)):
            raise self.frame.error("a lowered packed call takes a string and constant bounds", e)
        array = self._offset(stack, _ANY_BYTES * begin.value)
        result = self._offset(stack, _ANY_BYTES * end.value)
        return self._invoke(name.value, array, str(end.value - begin.value), result, e)

    def on_throw(self, e: Call) -> str:
        self.frame.leave("i32 -1")
        return "0"
