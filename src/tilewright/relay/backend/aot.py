"""The entry of a program whose operators are PrimFuncs already, as a PrimFunc (classic `relay.backend.aot`). Builds of models plan their
entries in `relay.backend.planning`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

from tilewright import tir
from tilewright.ir import GlobalVar, IRModule, Op
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.node import deep_recursion
from tilewright.relay.backend.kernels.tensor_graph import tensor_types
from tilewright.relay.backend.utils import mangle_module_name
from tilewright.relay.expr import Call, Constant, Expr, Function, Let, Tuple, TupleGetItem, Var
from tilewright.relay.transform.byoc.compiler_functions import CALL_LOWERED
from tilewright.relay.typing.open_types import type_of
from tilewright.support.errors import TVMError
from tilewright.target.virtual_device import CompilationConfig
from tilewright.tir import Buffer, PrimFunc, Stmt

ENTRY = "__tvm_main__"


class CallType(IntEnum):
    """How the entry calls operators: as packed functions that the runtime knows by name, as packed functions linked by name, or as C
    functions of data pointers."""

    Packed = 0
    CPacked = 1
    Unpacked = 2


def AOTLowerMain(mod_name: str, config: CompilationConfig, call_type: CallType = CallType.Packed) -> Pass:
    """Replace the Relay function "main", which calls PrimFuncs of the module, by a PrimFunc `__tvm_main__` of its inputs and outputs.

    Calls have the form `call_lowered(@f, (inputs,))`, or `@f(inputs)`; f takes the inputs, then the outputs. The entry allocates buffers
    for values between calls and for constants. It is exported as tvmgen_<mod_name>___tvm_main__, for the host of config. Functions called
    as CallType.Unpacked get the calling convention of C. Raises TVMError for other programs.
    """
    kind = CallType(call_type)

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        main = mod["main"]
        if not isinstance(main, Function):
            raise TVMError('AOTLowerMain lowers a Relay function "main", but it is a PrimFunc')
        with deep_recursion():
            lowering = _Lowering(mod, kind)
            entry = lowering.entry(main)
        attrs = {
            "global_symbol": f"{mangle_module_name(mod_name)}_{ENTRY}",
            "runner_function": True,
            "target": config.host_target,
        }
        functions = {g: f for g, f in mod.functions.items() if g.name_hint != "main"}
        if kind is CallType.Unpacked:
            functions |= {g: mod[g].with_attr("calling_conv", 0) for g in lowering.called}
        return mod.with_functions({**functions, GlobalVar(ENTRY): entry.with_attr(attrs)})

    return Pass(PassInfo(0, "AOTLowerMain"), run)


class _Lowering:
    """The buffers of values, and the calls in order."""

    def __init__(self, mod: IRModule, kind: CallType) -> None:
        self.mod, self.kind = mod, kind
        self.buffers: dict[Expr, list[Buffer]] = {}
        self.calls: list[tuple[str, list[Buffer]]] = []
        self.called: dict[GlobalVar, PrimFunc] = {}
        self.made: dict[Buffer, None] = {}
        self.constants: list[tuple[Buffer, Any]] = []

    def entry(self, main: Function) -> PrimFunc:
        for p in main.params:
            given = type_of(p) or p.type_annotation
            if given is None:
                raise TVMError(f"the type of parameter {p.name_hint} of main is not known; annotate it")
            types = tensor_types(given)
            names = [p.name_hint] if len(types) == 1 else [f"{p.name_hint}_{i}" for i in range(len(types))]
            self.buffers[p] = [tir.decl_buffer(t.concrete_shape, t.dtype, n) for t, n in zip(types, names, strict=True)]
        inputs = [b for p in main.params for b in self.buffers[p]]
        results = self.visit(main.body)
        outputs = [
            tir.decl_buffer(b.shape, b.dtype, f"output{i}" if len(results) > 1 else "output")
            for i, b in enumerate(results)
        ]
        # What a call made is written to the output at once; inputs, constants and further outputs of one value are copied.
        direct: dict[Buffer, Buffer] = {}
        copies: list[Stmt] = []
        for value, output in zip(results, outputs, strict=True):
            if value in self.made and value not in direct:
                direct[value] = output
            else:
                copies.append(_copy(direct.get(value, value), output))
        body = tir.stmt_seq(*[self.call(n, [direct.get(b, b) for b in of]) for n, of in self.calls], *copies)
        for b in self.made:
            if b not in direct:
                body = tir.Allocate(b.data, b.dtype, b.shape, tir.const(True, "bool"), body)
        for b, data in self.constants:
            body = tir.AllocateConst(b.data, b.dtype, b.shape, data, body)
        params = {tir.Var(b.name, "handle"): b for b in (*inputs, *outputs)}
        return PrimFunc(list(params), body, None, params)

    def call(self, name: str, buffers: Sequence[Buffer]) -> Stmt:
        if self.kind is CallType.Unpacked:
            code = tir.Var("error_code", "int32")
            failed = tir.AssertStmt(
                tir.EQ(code, tir.const(0, "int32")), tir.StringImm(f"{name} failed"), tir.Evaluate(tir.const(0))
            )
            return tir.LetStmt(code, tir.call_extern("int32", name, *[b.data for b in buffers]), failed)
        make: Callable[..., Any] = tir.call_packed if self.kind is CallType.Packed else tir.call_cpacked
        return tir.Evaluate(make(name, *buffers))

    def visit(self, e: Expr) -> list[Buffer]:
        """The buffers of a value; a tuple has those of its fields."""
        while isinstance(e, Let):
            self.buffers[e.var] = self.visit(e.value)
            e = e.body
        if e not in self.buffers:
            self.buffers[e] = self.lowered(e)
        return self.buffers[e]

    def lowered(self, e: Expr) -> list[Buffer]:
        if isinstance(e, Tuple):
            return [b for f in e.fields for b in self.visit(f)]
        if isinstance(e, TupleGetItem):
            return [self.visit(e.tuple_value)[e.index]]
        if isinstance(e, Constant):
            buffer = tir.decl_buffer(e.value.shape, str(e.value.dtype), f"constant_{len(self.constants)}")
            self.constants.append((buffer, e.value))
            return [buffer]
        if isinstance(e, Call) and isinstance(e.op, GlobalVar):
            return self.results(e.op, [b for a in e.args for b in self.visit(a)])
        if isinstance(e, Call) and type(e.op) is Op and e.op.name == CALL_LOWERED:
            gvar, args = e.args
            assert isinstance(gvar, GlobalVar)
            return self.results(gvar, self.visit(args))
        what = f"variable {e.name_hint}" if isinstance(e, Var) else type(e).__name__
        raise TVMError(
            f"AOTLowerMain lowers calls of lowered functions, tuples and constants, but main holds a {what}:\n{e}"
        )

    def results(self, gvar: GlobalVar, inputs: list[Buffer]) -> list[Buffer]:
        """The new buffers to which a call of a function writes."""
        func = self.mod.functions.get(gvar)
        if not isinstance(func, PrimFunc):
            raise TVMError(f"main calls {gvar.name_hint}, which must be a PrimFunc of the module")
        taken = [func.buffer_map[p] for p in func.params]
        for i, (given, want) in enumerate(zip(inputs, taken, strict=False)):
            if given.dtype != want.dtype or _shape(given) != _shape(want):
                raise TVMError(f"{gvar.name_hint}: argument {i} must be {_form(want)}, but is {_form(given)}")
        if len(inputs) >= len(taken):
            raise TVMError(
                f"{gvar.name_hint} takes {len(taken)} buffers; {len(inputs)} inputs leave none for its result"
            )
        made = [
            tir.decl_buffer(b.shape, b.dtype, f"sid_{len(self.made) + i}") for i, b in enumerate(taken[len(inputs) :])
        ]
        self.made.update(dict.fromkeys(made))
        self.calls.append((str(func.attrs.get("global_symbol", gvar.name_hint)), [*inputs, *made]))
        self.called[gvar] = func
        return made


def _form(b: Buffer) -> str:
    return f"{b.dtype}{_shape(b)}"


def _shape(b: Buffer) -> list[int]:
    """The shape of a buffer. Raises TVMError if it is not known."""
    sizes = [n.value for n in b.shape if isinstance(n, tir.IntImm)]
    if len(sizes) < len(b.shape):
        raise TVMError(f"buffer {b.name} must have a shape that is known, but it is {b.shape}")
    return sizes


def _copy(source: Buffer, to: Buffer) -> Stmt:
    axes = [tir.Var(f"i{k}", "int32") for k in range(len(to.shape))]
    body: Stmt = tir.BufferStore(to, tir.BufferLoad(source, tuple(axes)), tuple(axes))
    for axis, extent in reversed(list(zip(axes, to.shape, strict=True))):
        body = tir.For(axis, 0, extent, tir.ForKind.SERIAL, body)
    return body


__all__ = ["AOTLowerMain", "CallType"]
