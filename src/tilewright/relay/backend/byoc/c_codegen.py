"""Base for external code generators to C: a relay function becomes C source with a function for each operator, from given bodies.

    def relu(call, data, out):
        return f"for (int i = 0; i < {out.size}; ++i) out[i] = data[i] > 0 ? data[i] : 0;"

    CSourceCodegen("my_c", {"nn.relu": relu}).register()

The C function has the names of the Python parameters. After the call they stand for the tensors that are read, then for those that are
written.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.ir import DataType, IntImm, Op, TensorType, TupleType, Type
from tilewright.relay.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from tilewright.relay.functor import flow_children, post_order
from tilewright.relay.texts import type_text
from tilewright.runtime import Module, register_func
from tilewright.runtime.source_module import c_source_module
from tilewright.support.errors import TVMError

C_TYPES = {
    "float32": "float", "float64": "double", "bool": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t",
    "int64": "int64_t", "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
}  # fmt: skip
EMBEDDED = 64
"""The most elements of a constant that is written in the source. The code receives larger ones when the library is loaded."""
HEADER = "#include <math.h>\n#include <stdlib.h>\n#include <string.h>\n#include <tilewright/packed.h>\n"

Body = Callable[..., str]
"""(call, tensors read..., tensors written...) -> statements of C."""


class CTensor:
    """A tensor in C source: the `name` of its pointer, `shape`, `dtype`, number of elements `size`, and element type `ctype`."""

    __slots__ = ("ctype", "dtype", "name", "shape", "size", "type")

    def __init__(self, name: str, t: TensorType) -> None:
        self.name, self.type, self.dtype = name, t, str(t.dtype)
        if not all([isinstance(d, IntImm) for d in t.shape]):
            raise TVMError(
                f"C source is generated for known shapes, but {name} is {type_text(t)}; refuse such calls in the check of the pattern"
            )
        self.shape = t.concrete_shape
        self.size = int(np.prod(self.shape, dtype=np.int64))
        if self.dtype not in C_TYPES:
            raise TVMError(f"C has no type for {self.dtype}, which {name} has; known are {', '.join(C_TYPES)}")
        self.ctype = C_TYPES[self.dtype]

    @property
    def bytes(self) -> int:
        return self.size * np.dtype(self.dtype).itemsize

    def __str__(self) -> str:
        return self.name


def operator(call: Expr, name: str) -> Call:
    """The call of an operator that is nearest to the result, in a match or in the body of a composite function. Its attributes are used."""
    nearest: dict[Expr, None] = {call: None}
    # Breadth first, since the operands of the match lead to the rest of the program.
    for e in (order := [call]):
        if type(e) is Call and type(e.op) is Op and e.op.name == name:
            return e
        order += [c for c in flow_children(e) if c not in nearest]
        nearest.update(dict.fromkeys(flow_children(e)))
    raise TVMError(f"there is no call of {name} in\n{call}")


class CSourceCodegen:
    """A code generator of C source for the compiler `name`.

    kernels: bodies by the name of an operator ("nn.relu") or of a pattern ("my_c.conv2d_relu"). For a pattern, the call is the
    body of the composite function, and the tensors are those that it reads, with constants, in order of evaluation.
    header: the text at the top of the source, such as includes and helpers.
    """

    def __init__(self, name: str, kernels: Mapping[str, Body], header: str = "") -> None:
        self.name, self.kernels, self.header = name, dict(kernels), header

    def register(self, check: Callable[[Call], bool] | None = None) -> None:
        """Registers this as the code generator `relay.ext.<name>`, for the operators with bodies. check: returns whether it takes a
        call."""

        def takes(call: Call) -> bool:
            return self.fits(call) and (check is None or check(call))

        register_func(f"relay.ext.{self.name}", self.generate, override=True)
        for key in self.kernels:
            if not key.startswith(f"{self.name}."):
                Op.get(key).set_attr(f"target.{self.name}", takes)

    def fits(self, call: Call) -> bool:
        """Whether all tensors of a call have static shapes and types of C."""
        tensors = [t for e in (*call.args, call) for t in leaves(e.checked_type)]
        return all([str(t.dtype) in C_TYPES and all([isinstance(d, IntImm) for d in t.shape]) for t in tensors])

    def generate(self, func: Function) -> Module:
        """The module of the C source of a function."""
        unit = _Unit(self, func)
        return c_source_module(unit.text(), "c", [unit.symbol], unit.received)


def leaves(t: Type) -> list[TensorType]:
    """The tensor types in a type, including those in nested tuples."""
    if isinstance(t, TupleType):
        return [x for f in t.fields for x in leaves(f)]
    assert isinstance(t, TensorType)
    return [t]


class _Unit:
    """The source of one function."""

    def __init__(self, home: CSourceCodegen, func: Function) -> None:
        self.home, self.func = home, func
        self.symbol = str(func.attrs["global_symbol"])
        self.functions: dict[str, str] = {}
        """Text of a C function without its name -> its name. Equal functions are written once."""
        self.globals: list[str] = []
        self.definitions: list[str] = []
        self.count = 0
        self.received: list[str] = []
        self.steps: list[str] = []
        self.arena: list[CTensor] = []
        self.values: dict[Expr, Any] = {}
        self.constants: dict[Expr, str] = {
            e: f"{self.symbol}_const_{i}"
            for i, e in enumerate([e for e in post_order(func.body) if isinstance(e, Constant)])
        }
        self.inputs: list[CTensor] = []
        for p in func.params:
            self.values[p] = self._input(p.checked_type)
        self.outputs = [CTensor(f"out{i}", t) for i, t in enumerate(leaves(func.body.checked_type))]
        self._walk()

    def _input(self, t: Type) -> Any:
        if isinstance(t, TupleType):
            return [self._input(f) for f in t.fields]
        assert isinstance(t, TensorType)
        self.inputs.append(CTensor(f"in{len(self.inputs)}", t))
        return self.inputs[-1]

    def _walk(self) -> None:
        for e in post_order(self.func.body, skip=lambda e: isinstance(e, Function)):
            if e not in self.values:
                self.values[e] = self._value(e)
        # A step whose result is only the function's result writes there directly.
        renamed: dict[str, str] = {}
        for source, out in zip(_flat(self.values[self.func.body]), self.outputs, strict=True):
            if source in self.arena and source.name not in renamed:
                renamed[source.name] = out.name
                self.arena.remove(source)
                source.name = out.name
            else:
                self.steps.append(f"memcpy({out}, {source}, {out.bytes});")
        self.steps = [_renamed(s, renamed) for s in self.steps]

    def _value(self, e: Expr) -> Any:
        if isinstance(e, Constant):
            return self._constant(e)
        if isinstance(e, Tuple):
            return [self.values[f] for f in e.fields]
        if isinstance(e, TupleGetItem):
            return self.values[e.tuple_value][e.index]
        if isinstance(e, Call) and type(e.op) is Op:
            return self._call(e.op.name, e, [x for a in e.args for x in _flat(self.values[a])], e.checked_type)
        if isinstance(e, Call) and isinstance(e.op, Function) and "Composite" in e.op.attrs:
            return self._composite(e, e.op)
        raise TVMError(f"the C code generator {self.home.name} was given {type(e).__name__} in {self.symbol}:\n{e}")

    def _composite(self, e: Call, func: Function) -> Any:
        given = {p: self.values[a] for p, a in zip(func.params, e.args, strict=True)}
        read: list[CTensor] = []
        for node in post_order(func.body):
            if isinstance(node, Constant):
                read.append(self._constant(node))
            elif isinstance(node, Var):
                read += _flat(given[node])
        assert isinstance(func.body, Call)
        return self._call(str(func.attrs["Composite"]), func.body, read, e.checked_type)

    def _constant(self, e: Constant) -> CTensor:
        if e not in self.values:
            name = self.constants[e]
            tensor = self.values[e] = CTensor(name, TensorType(e.data.shape, DataType(e.data.dtype.name)))
            if tensor.size <= EMBEDDED:
                numbers = ", ".join([_number(v) for v in e.value.reshape(-1)])
                self.globals.append(f"static const {tensor.ctype} {name}[{max(tensor.size, 1)}] = {{{numbers or 0}}};")
            else:
                self.globals.append(f"static const {tensor.ctype}* {name};  /* {_shape(tensor)} */")
                self.received.append(name)
        found: CTensor = self.values[e]
        return found

    def _call(self, key: str, call: Call, read: Sequence[CTensor], result: Type) -> Any:
        body = self.home.kernels.get(key)
        if body is None:
            raise TVMError(
                f"the C code generator {self.home.name} has no body for {key}, which {self.symbol} holds; it has"
                f" {', '.join(self.home.kernels)}"
            )
        written = []
        for t in leaves(result):
            written.append(CTensor(f"buf{self.count}", t))
            self.count += 1
        tensors = [*read, *written]
        names = _parameters(body, len(tensors), key)
        local = [CTensor(n, t.type) for n, t in zip(names, tensors, strict=True)]
        statements = inspect.cleandoc(body(call, *local))
        params = [f"{'const ' if i < len(read) else ''}{t.ctype}* {t.name}" for i, t in enumerate(local)]
        head = f"/* {key}: {', '.join(map(_shape, read))} -> {', '.join(map(_shape, written))} */"
        lines = "\n".join(["  " + line if line else "" for line in statements.splitlines()])
        name = self._function(key.rpartition(".")[2], f"({', '.join(params)}) {{\n{lines}\n}}\n", head)
        self.arena += written
        self.steps.append(f"{name}({', '.join([t.name for t in tensors])});")
        rest = iter(written)
        return _nested(result, rest)

    def _function(self, base: str, text: str, head: str) -> str:
        key = f"{base}{text}"
        if key not in self.functions:
            self.functions[key] = f"{base}_{len(self.functions)}"
            self.definitions.append(f"\n{head}\nstatic void {self.functions[key]}{text.rstrip()}")
        return self.functions[key]

    def text(self) -> str:
        """The whole source."""
        tensors = [*[(t, "const ") for t in self.inputs], *[(t, "") for t in self.outputs]]
        params = ", ".join([f"{const}{t.ctype}* {t.name}" for t, const in tensors])
        given = ", ".join([f"TW_DATA({const}{t.ctype}, {i})" for i, (t, const) in enumerate(tensors)])
        lines = [
            HEADER + self.home.header,
            *self.globals,
            *self.definitions,
            "",
            f"static int32_t {self.symbol}_({params}) {{",
        ]
        lines += [f"  {line}" for line in [*self._allocation(), *self.steps]]
        if self.arena:
            lines.append("  free(arena);")
        lines += ["  return 0;", "}", ""]
        if self.received:
            lines += [f"TW_PACKED_FUNC(__init_{self.symbol}) {{", "  TW_EXPECT_ARGS(1);"]
            lines += [f"  {name} = tw_data(tw_list_item(&args[0], {i}));" for i, name in enumerate(self.received)]
            lines += ["  return 0;", "}", ""]
        lines += [f"TW_PACKED_FUNC({self.symbol}) {{", f"  TW_EXPECT_ARGS({len(tensors)});"]
        lines += [f"  return {self.symbol}_({given});", "}", ""]
        return "\n".join(lines)

    def _allocation(self) -> list[str]:
        """The text that allocates the intermediate tensors as one block, at multiples of 64 bytes."""
        if not self.arena:
            return []
        lines, at = [], 0
        for t in self.arena:
            lines.append(f"{t.ctype}* {t} = ({t.ctype}*)(arena + {at});")
            at += -(-max(t.bytes, 1) // 64) * 64
        failure = 'return tw_error("MemoryError", "no memory for intermediate results");'
        return [f"char* arena = aligned_alloc(64, {at});", f"if (!arena) {failure}", *lines]


def _parameters(body: Body, count: int, key: str) -> list[str]:
    """Names of a C function's parameters: those of the Python function after the first."""
    found = list(inspect.signature(body).parameters.values())[1:]
    names: list[str] = []
    for p in found:
        if p.kind is p.VAR_POSITIONAL:
            names += [f"{p.name}{i}" for i in range(count - len(found) + 1)]
        else:
            names.append(p.name)
    if len(names) != count:
        raise TVMError(
            f"the body for {key} takes the tensors {', '.join(names) or 'none'}, but {count} are read and written by this call"
        )
    return names


def _flat(value: Any) -> list[CTensor]:
    return [t for v in value for t in _flat(v)] if isinstance(value, list) else [value]


def _nested(t: Type, tensors: Any) -> Any:
    return [_nested(f, tensors) for f in t.fields] if isinstance(t, TupleType) else next(tensors)


def _shape(t: CTensor) -> str:
    return f"{t.ctype}[{', '.join(map(str, t.shape))}]"


def _number(v: Any) -> str:
    if isinstance(v, np.floating):
        if not np.isfinite(v):
            return "NAN" if np.isnan(v) else "INFINITY" if v > 0 else "-INFINITY"
        return str(v) + ("f" if v.dtype == np.float32 else "")
    return str(int(v))


def _renamed(step: str, names: Mapping[str, str]) -> str:
    head, _, rest = step.partition("(")
    args = [names.get(a, a) for a in rest.removesuffix(");").split(", ")]
    return f"{head}({', '.join(args)});"
