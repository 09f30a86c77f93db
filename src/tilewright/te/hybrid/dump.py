"""Prints lowered loops as a hybrid script."""

from __future__ import annotations

import ast
import math
from typing import Any, NoReturn

from tilewright.ir import FloatImm, GlobalVar, IntImm, IRModule, PrimExpr
from tilewright.ir.transform import Sequential
from tilewright.node import Visitor, on
from tilewright.support.errors import TVMError
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import (
    And,
    BufferLoad,
    Call,
    Cast,
    CmpExpr,
    Let,
    Max,
    Min,
    Not,
    Or,
    Select,
    Var,
)
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)
from tilewright.tir.stmt_functor import substitute
from tilewright.tir.transform import (
    CompactBufferAllocation,
    ConvertBlocksToOpaque,
    LowerInitBlock,
    LowerMatchBuffer,
    PlanAndUpdateBufferAllocationLocation,
    Simplify,
)

SYMBOLS = {
    "tir.Add": "+", "tir.Sub": "-", "tir.Mul": "*", "tir.Div": "/", "tir.FloorDiv": "//", "tir.FloorMod": "%",
    "tir.EQ": "==", "tir.NE": "!=", "tir.LT": "<", "tir.LE": "<=", "tir.GT": ">", "tir.GE": ">=",
}  # fmt: skip
CALLS = {"pow": "power", "fabs": "abs"}
LOOPS = {
    ForKind.SERIAL: "range",
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorize",
    ForKind.UNROLLED: "unroll",
}


def function_source(func: PrimFunc, inputs: int, name: str) -> str:
    """The source of a Python function that takes the first `inputs` buffers and returns the others."""
    passes = [
        LowerInitBlock(),
        PlanAndUpdateBufferAllocationLocation(),
        ConvertBlocksToOpaque(),
        CompactBufferAllocation(),
        LowerMatchBuffer(),
        Simplify(),
    ]
    (lowered,) = Sequential(passes)(IRModule({GlobalVar("main"): func})).functions.values()
    assert isinstance(lowered, PrimFunc)
    return _Writer(lowered, inputs, name).text()


class _Writer(Visitor):
    def __init__(self, func: PrimFunc, inputs: int, name: str) -> None:
        self.func, self.inputs, self.function = func, inputs, name
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[Any, str] = {}
        self.used: set[str] = set()

    def text(self) -> str:
        buffers = [self.func.buffer_map[p] for p in self.func.params if p in self.func.buffer_map]
        parameters = [self.name(b) for b in buffers[: self.inputs]]
        outputs = buffers[self.inputs :]
        for b in outputs:
            self.line(f'{self.name(b)} = output_tensor({self.shape(b)}, "{b.dtype}")')
        self.visit(self.func.body)
        self.line(f"return {', '.join([self.name(b) for b in outputs])}")
        text = "\n".join([f"def {self.function}({', '.join(parameters)}):", *self.lines])
        # Python knows which parentheses are needed.
        return ast.unparse(ast.parse(text)) + "\n"

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def name(self, item: Any) -> str:
        """The name of a variable or a buffer. Views of one buffer have the same name, that of its data."""
        key = item.data if isinstance(item, Buffer) else item
        found = self.names.get(key)
        if found is None:
            base = item.name.replace(".", "_")
            found, n = base, 1
            while found in self.used:
                found, n = f"{base}_{n}", n + 1
            self.used.add(found)
            self.names[key] = found
        return found

    def shape(self, buffer: Buffer) -> str:
        dims = [self.expr(d) for d in buffer.shape] or ["1"]
        return f"({', '.join(dims)},)"

    def no(self, node: Any) -> NoReturn:
        raise TVMError(f"te.hybrid.build: {type(node).__name__} cannot be written as a hybrid script: {str(node)[:80]}")

    def within(self, head: str, body: Stmt) -> None:
        self.line(head)
        self.depth += 1
        before = len(self.lines)
        self.visit(body)
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    # ---- statements

    @on(SeqStmt)
    def _seq(self, s: SeqStmt) -> None:
        for x in s.seq:
            self.visit(x)

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> None:
        block: Block = s.block
        for b in block.alloc_buffers:
            self.line(f'{self.name(b)} = allocate({self.shape(b)}, "{b.dtype}", "{b.scope()}")')
        if isinstance(s.predicate, IntImm) and s.predicate.value:
            self.visit(block.body)
        else:
            self.within(f"if {self.expr(s.predicate)}:", block.body)

    @on(For)
    def _for(self, s: For) -> None:
        var = self.name(s.loop_var)
        if s.kind == ForKind.THREAD_BINDING and s.thread_binding is not None:
            head = f'bind("{s.thread_binding.thread_tag}", {self.expr(s.extent)})'
        elif isinstance(s.min, IntImm) and s.min.value == 0:
            head = f"{LOOPS[s.kind]}({self.expr(s.extent)})"
        else:
            head = f"{LOOPS[s.kind]}({self.expr(s.min)}, {self.expr(s.min + s.extent)})"
        self.within(f"for {var} in {head}:", s.body)

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> None:
        self.within(f"if {self.expr(s.condition)}:", s.then_case)
        if s.else_case is not None:
            self.within("else:", s.else_case)

    @on(LetStmt)
    def _let(self, s: LetStmt) -> None:
        self.line(f"{self.name(s.var)} = {self.expr(s.value)}")
        self.visit(s.body)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self.line(f"{self.name(s.buffer)}[{self.index(s.indices)}] = {self.expr(s.value)}")

    @on(DeclBuffer)
    def _decl(self, s: DeclBuffer) -> None:
        self.visit(s.body)

    @on(Evaluate)
    def _evaluate(self, s: Evaluate) -> None:
        if not isinstance(s.value, IntImm):
            self.no(s.value)

    @on(Stmt)
    def _other(self, s: Stmt) -> None:
        self.no(s)

    # ---- expressions

    def index(self, indices: tuple[PrimExpr, ...]) -> str:
        return ", ".join([self.expr(i) for i in indices]) or "0"

    def expr(self, e: Any) -> str:
        if isinstance(e, IntImm):
            return str(bool(e.value)) if e.dtype == "bool" else str(e.value)
        if isinstance(e, FloatImm):
            return self._float(e)
        if isinstance(e, Var):
            return self.name(e)
        if isinstance(e, BufferLoad):
            return f"{self.name(e.buffer)}[{self.index(e.indices)}]"
        symbol = SYMBOLS.get(type(e).type_key)
        if symbol is not None:
            return f"({self.expr(e.a)} {symbol} {self.expr(e.b)})"
        if isinstance(e, (Min, Max)):
            return f"{'min' if isinstance(e, Min) else 'max'}({self.expr(e.a)}, {self.expr(e.b)})"
        if isinstance(e, (And, Or)):
            return f"({self.expr(e.a)} {'and' if isinstance(e, And) else 'or'} {self.expr(e.b)})"
        if isinstance(e, Not):
            return f"(not {self.expr(e.a)})"
        if isinstance(e, Select):
            return f"({self.expr(e.true_value)} if {self.expr(e.condition)} else {self.expr(e.false_value)})"
        if isinstance(e, Cast):
            return f"{e.dtype}({self.expr(e.value)})"
        if isinstance(e, Let):
            return self.expr(substitute(e.body, {e.var: e.value}))
        return self._call(e)

    def _float(self, e: FloatImm) -> str:
        if math.isfinite(e.value):
            return repr(float(e.value)) if e.dtype == "float32" else f"{e.dtype}({float(e.value)!r})"
        if math.isnan(e.value):
            self.no(e)
        # Infinity is written as the type's extreme value.
        return f'{"max" if e.value > 0 else "min"}_value("{e.dtype}")'

    def _call(self, e: Any) -> str:
        if not isinstance(e, Call) or isinstance(e, CmpExpr):
            self.no(e)
        name = getattr(e.op, "name", "").removeprefix("tir.")
        args = [self.expr(a) for a in e.args]
        if name == "likely":
            return args[0]
        if name == "if_then_else":
            return f"({args[1]} if {args[0]} else {args[2]})"
        from tilewright.te.hybrid.parser import INTRINSICS

        name = CALLS.get(name, name)
        if name not in INTRINSICS:
            self.no(e)
        return f"{name}({', '.join(args)})"
