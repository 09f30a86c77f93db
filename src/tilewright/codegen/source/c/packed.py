"""C text for the ABI of packed functions: fields of tensors and arguments, tensors on the stack, calls of packed functions."""

from __future__ import annotations

from tilewright.codegen.source.c.calls import CallEmitter
from tilewright.codegen.source.text.operands import CHOICE, SUM, UNARY, Text, string
from tilewright.ir import DataType, IntImm, PrimExpr
from tilewright.tir import Call, StringImm

VALUE = 12
_TENSOR_FIELDS = {
    1: "data", 2: "shape", 3: "strides", 4: "ndim", 5: "type_code", 6: "type_bits", 7: "type_lanes", 8: "byte_offset",
    9: "device_id", 10: "device_type",
}  # fmt: skip
_ANY_FIELDS = {13: "type_index", 14: "zero_padding"}
"""Field numbers of tir.tvm_struct_get and tvm_struct_set: the classic ones, then those of an argument."""
_FIELD_TYPES = {
    **dict.fromkeys((1, 2, 3), "handle"),
    **dict.fromkeys((4, 9, 10, 13), "int32"),
    **dict.fromkeys((5, 6), "uint8"),
    7: "uint16",
    8: "uint64",
    14: "uint32",
}
_FFI_INT, _FFI_BOOL, _FFI_FLOAT, _FFI_POINTER, _FFI_TENSOR, _FFI_STRING = 1, 2, 3, 4, 7, 8
_DL_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
_I64, _F64, _HANDLE = DataType("int64"), DataType("float64"), DataType("handle")
_STACK = {
    "shape": "int64_t",
    "array": "tw_tensor",
    "arg_value": "tw_any",
    "arg_tcode": "int32_t",
    "tvm_ffi_any": "tw_any",
}


def _value_field(dtype: DataType) -> tuple[str, DataType]:
    """(member of the union, its type) that holds an argument of a type."""
    if dtype.is_float:
        return "v_float64", _F64
    return ("v_ptr", _HANDLE) if dtype.code == "handle" else ("v_int64", _I64)


class PackedEmitter(CallEmitter):
    """Rules for calls and struct accesses of the ABI of packed functions, as a part of a function's emitter."""

    def _field(self, e: Call, dtype: DataType) -> tuple[Text, DataType]:
        """(field, its type), named by the first three arguments."""
        base, index, kind = self.expr(e.args[0]), self.expr(e.args[1]), e.args[2]
        if not isinstance(kind, IntImm):
            raise self.error("the field of a struct access must be a constant", e)
        number = kind.value
        struct = "tw_any" if number == VALUE or number in _ANY_FIELDS else "tw_tensor"
        place = f"(({struct}*){base.at(UNARY)})[{index}]"
        if number == 0:
            return Text(f"&{place}", UNARY), _HANDLE
        if number == VALUE:
            member, found = _value_field(dtype)
            return Text(f"{place}.value.{member}"), found
        member = _TENSOR_FIELDS.get(number) or _ANY_FIELDS.get(number, "")
        if not member:
            raise self.error(f"a struct access has no field {number}", e)
        return Text(f"{place}.{member}"), DataType(_FIELD_TYPES[number])

    def on_struct_get(self, e: Call) -> Text:
        text, kind = self._field(e, e.dtype)
        return self.convert(text, kind, e.dtype)

    def on_struct_set(self, e: Call) -> Text:
        value = e.args[3]
        place, kind = self._field(e, value.dtype)
        text = self.expr(value)
        if value.dtype.code == "handle":
            text = Text(f"(void*){text.at(UNARY)}", UNARY)
        else:
            text = self.convert(text, value.dtype, kind)
        self.line(f"{place} = {text};")
        self.forget()
        return Text("0")

    def on_stack_alloca(self, e: Call) -> Text:
        kind, count = e.args
        if not isinstance(kind, StringImm) or not isinstance(count, IntImm) or kind.value not in _STACK:
            raise self.error(f"tvm_stack_alloca takes one of {', '.join(_STACK)} and a constant", e)
        name = self.names.fresh("stack")
        self.line(f"{_STACK[kind.value]} {name}[{max(count.value, 1)}];")
        return Text(name)

    def on_make_shape(self, e: Call) -> Text:
        dims = ", ".join([self.convert(self.expr(d), d.dtype, _I64) for d in e.args]) or "0"
        name = self.names.fresh("shape")
        self.line(f"int64_t {name}[{max(len(e.args), 1)}] = {{{dims}}};")
        return Text(name)

    def on_make_array(self, e: Call) -> Text:
        data, shape, strides, ndim, of_type, offset = e.args
        dtype = of_type.dtype
        name = self.names.fresh("tensor")
        steps = "0" if isinstance(strides, IntImm) else self.expr(strides)
        code = f"{_DL_CODES.get(dtype.code, 3)}, {8 if dtype.is_bool else dtype.bits}, {dtype.lanes}"
        start = self.convert(self.expr(offset), offset.dtype, _I64)
        given = f"(void*){self.expr(data).at(UNARY)}, 1, 0, {self.expr(ndim)}, {code}, {self.expr(shape)}, {steps}"
        self.line(f"tw_tensor {name} = {{{given}, {start.at(SUM + 1)} * {dtype.bytes * dtype.lanes}}};")
        return Text(f"&{name}", UNARY)

    def on_call_packed(self, e: Call) -> Text:
        """Calls a packed function by name through the runtime's context: one of this library, of its imports, or a global one."""
        name = e.args[0]
        if not isinstance(name, StringImm):
            raise self.error("a packed call names its function with a string", e)
        array = self._pack(e.args[1:])
        return self._invoke(name.value, array, len(e.args) - 1, f"{array} + {len(e.args) - 1}", e)

    def _pack(self, args: tuple[PrimExpr, ...]) -> str:
        """Stores the arguments on the stack, and after them an entry for the result, which is None. Returns the name of the array."""
        items = []
        for arg in args:
            index, text, member = self._as_any(arg)
            items.append(f"{{{index}, 0, {{.{member} = {text}}}}}")
        array = self.names.fresh("arguments")
        self.line(f"tw_any {array}[{len(args) + 1}] = {{{', '.join([*items, '{0, 0, {0}}'])}}};")
        return array

    def on_call_trace(self, e: Call) -> Text:
        """Calls a packed function with a value as last argument. The result is the function's, or the value if it returns None."""
        name, *args = e.args
        if not isinstance(name, StringImm):
            raise self.error("a traced call names its function with a string", e)
        array = self._pack(tuple(args))
        result = f"{array}[{len(args)}]"
        returned = self._invoke(name.value, array, len(args), f"{array} + {len(args)}", e)
        return Text(f"{result}.type_index ? {returned.at(CHOICE + 1)} : {self.expr(args[-1]).at(CHOICE + 1)}", CHOICE)

    def _invoke(self, name: str, array: str, count: int, result: str, e: Call) -> Text:
        self.forget()
        self.module.uses_context = self.module.uses_module = True
        missing = string(f"{self.name}: no runtime is there to call the packed function {name!r}")
        self.line(f'if (!__tilewright_context.call_from) return tw_tell("RuntimeError", {missing});')
        given = f"&__tvm_ffi__library_ctx, {string(name)}, {array}, {count}, {result}"
        self.check(Text(f"__tilewright_context.call_from({given})"))
        if e.dtype.code in ("void", ""):
            return Text("0")
        member, kind = _value_field(e.dtype)
        return self.temporary(self.convert(Text(f"({result})->value.{member}"), kind, e.dtype), e.dtype, "result")

    def _as_any(self, arg: PrimExpr) -> tuple[int, Text, str]:
        """(type index, operand, member of the value) of an argument."""
        dtype = arg.dtype
        if isinstance(arg, StringImm):
            return _FFI_STRING, Text(f"(void*){string(arg.value)}", UNARY), "v_ptr"
        if isinstance(arg, Call) and arg.intrinsic == "tvm_stack_make_array":
            return _FFI_TENSOR, self.expr(arg), "v_ptr"
        if dtype.code == "handle":
            return _FFI_POINTER, Text(f"(void*){self.expr(arg).at(UNARY)}", UNARY), "v_ptr"
        member, kind = _value_field(dtype)
        index = _FFI_FLOAT if dtype.is_float else _FFI_BOOL if dtype.is_bool else _FFI_INT
        return index, self.convert(self.expr(arg), dtype, kind), member

    def on_call_lowered(self, e: Call) -> Text:
        """Calls (name, stack of arguments, -, begin, end); the result is stored in entry `end`."""
        name, stack, begin, end = e.args[0], self.expr(e.args[1]), e.args[3], e.args[4]
        if not (isinstance(name, StringImm) and isinstance(begin, IntImm) and isinstance(end, IntImm)):
            raise self.error("a lowered packed call takes a string and constant bounds", e)
        array = f"(tw_any*){stack.at(UNARY)}"
        first, last = (f"{array} + {k.value}" if k.value else array for k in (begin, end))
        return self._invoke(name.value, first, end.value - begin.value, last, e)

    def on_throw(self, e: Call) -> Text:
        self.line("return -1;")
        return Text("0")

    def check(self, code: Text) -> None:
        raise self.error("checks are emitted by the function", None)
