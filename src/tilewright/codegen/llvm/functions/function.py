"""LLVM IR text of one PrimFunc: a function for its body, and one for each part of it that becomes a function of its own."""

from __future__ import annotations

from tilewright.codegen.llvm.expressions.arithmetic import Arithmetic
from tilewright.codegen.llvm.expressions.bits import Bits
from tilewright.codegen.llvm.expressions.calls import CallEmitter
from tilewright.codegen.llvm.expressions.expr import ExprEmitter
from tilewright.codegen.llvm.expressions.mathematics import Functions
from tilewright.codegen.llvm.expressions.operands import Operands
from tilewright.codegen.llvm.expressions.types import is_literal, llvm_type
from tilewright.codegen.llvm.functions.frame import LAUNCH, Frame, ModuleContext
from tilewright.codegen.llvm.functions.loops import VECTORS, Loops
from tilewright.codegen.llvm.functions.packed import PackedEmitter
from tilewright.codegen.llvm.functions.stmt import StmtEmitter
from tilewright.codegen.llvm.functions.variables import Facts, Variables
from tilewright.codegen.llvm.memory.accesses import MemoryEmitter
from tilewright.tir import AttrStmt, For, PrimFunc, Stmt
from tilewright.tir.function import IN_PLACE

COLD = "nounwind noinline optnone"
"""Attributes of functions that run once per call and only pass arguments on. LLVM compiles them without optimisation, in a tenth of the
time; with it, they would take a third of the time of a small kernel."""
PLAIN = ' "tune-cpu"="x86-64-v4"'
"""How LLVM vectorises and unrolls loops without marks on processors with AVX-512: in the same way on all, with vectors of 32 bytes, as it
does on x86-64-v3. By its models of single processors it takes wider vectors on some and unrolls the loop around them further, which made
plain loop nests slower there than on processors with fewer features."""
MOST_PIECES = 0x7FFF
"""The most pieces that a parallel loop is divided into."""


class FunctionEmitter:
    """Emits the body of a PrimFunc, or of a part of one that becomes a function of its own (with `parent`)."""

    def __init__(
        self, module: ModuleContext, name: str, parent: FunctionEmitter | None = None, on_threads: bool = False
    ) -> None:
        self.module, self.parent = module, parent
        self.frame = frame = Frame(module, name)
        self.b, self.iptr = frame.b, frame.iptr
        self.facts: Facts = parent.facts if parent else Facts()
        facts = self.facts
        self.variables: Variables = Variables(frame, facts, parent.variables if parent else None)
        variables = self.variables
        self.operands = operands = Operands(frame)
        self.expressions = expressions = ExprEmitter(frame, variables, operands)
        self.memory = memory = MemoryEmitter(frame, facts, variables, operands, expressions)
        functions = Functions(frame, operands, expressions)
        calls = CallEmitter(frame, facts, variables, operands, expressions, memory, functions)
        packed = PackedEmitter(frame, variables, operands, expressions, memory)
        calls.parts += [Bits(frame, operands, expressions), packed]
        expressions.parts += [Arithmetic(frame, variables, operands, expressions), memory, calls]
        self.loops = loops = Loops(frame, facts, variables, operands, expressions, memory)
        parallel, compute = (None if on_threads else self.parallel), (None if parent else self.compute)
        self.statements = StmtEmitter(frame, facts, variables, operands, expressions, memory, loops, parallel, compute)

    # --- whole functions

    def declare_params(self, func: PrimFunc) -> None:
        """Names and declares the parameters. Data pointers are noalias, with the alignment of their buffers."""
        self.facts.noalias = bool(func.attrs.get("tir.noalias", True))
        places = func.attrs.get(IN_PLACE, ())
        buffers = [func.buffer_map.get(func.params[int(k)]) for k in places]
        self.facts.shared = frozenset([b.data for b in buffers if b is not None])
        for k, param in enumerate(func.params):
            name = f"%p{k}"
            buffer = func.buffer_map.get(param)
            if buffer is not None:
                align = max(1, min(buffer.data_alignment, self.frame.target.cpu.alignment))
                self.variables.pointers[buffer.data] = (name, align)
                self.variables.pointers[param] = (name, align)
                noalias = self.facts.noalias and buffer.data not in self.facts.shared
                self.variables.params.append(f"ptr {'noalias ' if noalias else ''}align {align} {name}")
            elif param.dtype.code == "handle":
                align = self.module.pointer_align(func, param)
                self.variables.pointers[param] = (name, align)
                self.variables.values[param] = name
                noalias = self.facts.noalias and align > 1
                self.variables.params.append(f"ptr {'noalias ' if noalias else ''}align {align} {name}")
            else:
                self.variables.values[param] = name
                self.variables.params.append(f"{llvm_type(param.dtype)} {name}")

    def body(self, stmt: Stmt) -> None:
        """Emits a whole function body."""
        self.facts.use.visit(stmt)
        self.statements.stmt(stmt)

    def text(self, header: str, attributes: str = "nounwind") -> str:
        """The text of the finished function. header: its "define ..." before the parameters."""
        if self.frame.result == "i32":
            last = "  ret i32 0"
        else:
            last = "  ret void" if self.frame.result == "void" else "  unreachable"
        # LLVM uses SVE registers for vectors if it knows their width.
        units = self.frame.target.cpu.sve_bits // 128
        known = f" vscale_range({units},{units})" if units else ""
        # Vectors that are spilled lie in one cache line each. LLVM cannot see to that once it has used the frame pointer otherwise.
        if self.frame.target.cpu.vector_bits > 128 and self.frame.target.cpu.arch == "x86" and attributes != COLD:
            known += ' "stackrealign"'
        code = self.b.text()
        if self.frame.target.cpu.avx512 and any([VECTORS in line for line in code]):
            known += PLAIN
        lines = [
            f"{header}({', '.join(self.variables.params)}) {attributes}{known} {{",
            *code,
            last,
            *self.frame.tail,
            "}",
        ]
        return "\n".join(lines)

    # --- parts that become functions

    def parallel(self, s: For, low: str, extent: str) -> None:
        """Emits a loop whose iterations the threads of the runtime share."""
        b, iptr = self.b, self.iptr
        begin, count = self.loops.wide(low, s.min), self.loops.wide(extent, s.extent)
        end = self.loops.sum(begin, count)
        self.loops.note_range(s)
        name = self.module.fresh(f"{self.frame.name}.parallel")
        child = FunctionEmitter(self.module, name, self, on_threads=True)
        child.b.level_of.update({"%begin": 0, "%end": 0})
        stored = self.facts.use.stored.get(id(s), set())
        child.loops.counted(s.loop_var, "%begin", "%end", False, stored, lambda: child.statements.stmt(s.body))
        child.variables.params += [f"{iptr} %begin", f"{iptr} %end"]
        self.module.functions.append(child.text(f"define internal i32 @{name}"))
        task, data = self._task(child, begin, end)
        inner = ", ".join(
            [f"{kind} {outer}" for kind, outer, _ in child.variables.captures] + [f"{iptr} {begin}", f"{iptr} {end}"]
        )
        self.memory.forget(None)
        launch = self.frame.context(LAUNCH)
        none = b.here(f"icmp eq ptr {launch}, null")
        b.push(b.label("serial"))
        first = b.here(f"call i32 @{name}({inner})")
        serial = b.pop()
        b.push(b.label("launch"))
        second = b.here(f"call i32 {launch}(ptr @{task}, ptr {data}, i32 {self._pieces(count)})")
        pool = b.pop()
        code = b.name()
        phi = f"{code} = phi i32 [ {first}, %{serial.label} ], [ {second}, %{pool.label} ]"
        b.branch(none, serial, pool, b.label("join"), [phi])
        self.frame.check(b.define_here(code))

    def _pieces(self, count: str) -> str:
        """The most pieces for the thread pool, negated: the number of iterations, at most MOST_PIECES."""
        if is_literal(count):
            return str(-min(int(count), MOST_PIECES))
        b, iptr = self.b, self.iptr
        least = b.call(f"{iptr}({iptr}, {iptr})", f"llvm.smin.{iptr}", f"{iptr} {count}, {iptr} {MOST_PIECES}", count)
        negative = b.pure(f"sub {iptr} 0, {least}", least)
        return negative if iptr == "i32" else b.pure(f"trunc {iptr} {negative} to i32", negative)

    def _task(self, child: FunctionEmitter, begin: str, end: str) -> tuple[str, str]:
        """(the function that the pool calls, which runs a contiguous share; the packed captures)."""
        b, iptr = self.b, self.iptr
        packed = [*child.variables.captures, (iptr, begin, "%begin"), (iptr, end, "%end")]
        data = b.alloca(f"alloca [{len(packed)} x i64], align 8")
        task = f"{child.frame.name}.task"
        lines = [f"define internal i32 @{task}(i32 %task, i32 %count, ptr %data) {COLD} {{", "entry:"]
        for k, (kind, outer, name) in enumerate(packed):
            slot = b.here(f"getelementptr i64, ptr {data}, i32 {k}")
            b.effect(f"store {kind} {outer}, ptr {slot}, align 8")
            lines.append(f"  {name}.at = getelementptr i64, ptr %data, i32 {k}")
            lines.append(f"  {name} = load {kind}, ptr {name}.at, align 8")
        args = ", ".join(
            [f"{kind} {name}" for kind, _, name in child.variables.captures] + [f"{iptr} %low", f"{iptr} %high"]
        )
        cast = "sext i32 {} to i64" if iptr == "i64" else "add i32 {}, 0"
        lines += [
            f"  %t = {cast.format('%task')}",
            f"  %n = {cast.format('%count')}",
            f"  %total = sub {iptr} %end, %begin",
            f"  %t1 = add {iptr} %t, 1",
            f"  %m0 = mul {iptr} %t, %total",
            f"  %m1 = mul {iptr} %t1, %total",
            f"  %d0 = sdiv {iptr} %m0, %n",
            f"  %d1 = sdiv {iptr} %m1, %n",
            f"  %low = add {iptr} %begin, %d0",
            f"  %high = add {iptr} %begin, %d1",
            f"  %code = call i32 @{child.frame.name}({args})",
            "  ret i32 %code",
            "}",
        ]
        self.module.functions.append("\n".join(lines))
        return task, data

    def compute(self, s: AttrStmt) -> None:
        """Emits the body of a packed function as a function of its own, whose pointers do not overlap."""
        name = self.module.fresh(f"{self.frame.name}.compute")
        child = FunctionEmitter(self.module, name, self)
        child.statements.stmt(s.body)
        self.module.functions.append(child.text(f"define internal i32 @{name}"))
        args = ", ".join(f"{kind} {outer}" for kind, outer, _ in child.variables.captures)
        self.frame.check(self.b.here(f"call i32 @{name}({args})"))
