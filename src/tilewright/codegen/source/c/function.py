"""C text of one PrimFunc: a function for its body, and one for each part of it that becomes a function of its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tilewright.codegen.callees import value_type
from tilewright.codegen.operations import EXPRESSIONS, INTRINSICS, STATEMENTS
from tilewright.codegen.source.c.names import C_LANGUAGE, ctype, function_name, kept
from tilewright.codegen.source.c.stmt import StmtEmitter, pointee
from tilewright.codegen.source.text.identifiers import Names
from tilewright.codegen.source.text.operands import UNARY, Text
from tilewright.codegen.source.text.uses import Uses
from tilewright.codegen.source.text.writer import Scope
from tilewright.ir import DataType, GlobalVar
from tilewright.tir import AttrStmt, Call, For, PrimFunc, Stmt, Var
from tilewright.tir.analysis import undefined_vars
from tilewright.tir.function import IN_PLACE

_WORD = re.compile(r"[A-Za-z_]\w*")

if TYPE_CHECKING:
    from tilewright.codegen.source.c.module import ModuleEmitter


class FunctionEmitter(StmtEmitter):
    """Emits the body of a PrimFunc, or of a part of one that becomes a function of its own (with `parent`)."""

    def __init__(self, module: ModuleEmitter, name: str, parent: FunctionEmitter | None = None) -> None:
        self.module, self.name, self.parent = module, name, parent
        self.names = Names(C_LANGUAGE)
        self.variables = {}
        self.elements = {}
        self.ranges = dict(parent.ranges) if parent else {}
        self.scopes = [Scope(1)]
        self.in_parallel = False
        self.outlined = parent is not None
        self.params: list[str] = []
        self.comments: list[str] = []
        self.noalias: bool = parent.noalias if parent else True
        self.shared: frozenset[Var] = parent.shared if parent else frozenset()
        self.written: set[Var] = parent.written if parent else set()
        self.read: set[Var] = parent.read if parent else set()
        self.used: dict[Var, DataType] = parent.used if parent else {}
        self.parts = 0

    # --- whole functions

    def declare(self, func: PrimFunc) -> None:
        """Names and declares the parameters. Pointers do not overlap unless the function's attributes say so."""
        self.noalias = bool(func.attrs.get("tir.noalias", True))
        places = func.attrs.get(IN_PLACE, ())
        buffers = [func.buffer_map.get(func.params[int(k)]) for k in places]
        self.shared = frozenset([b.data for b in buffers if b is not None])
        look = Uses()
        look.visit(func.body)
        self.written, self.used = look.written, look.elements
        self.read = look.loaded | look.passed
        for param in func.params:
            buffer = func.buffer_map.get(param)
            if buffer is not None:
                name = self._parameter(buffer.data, buffer.name, ctype(kept(buffer.dtype.element)))
                self.variables[param] = self.variables[buffer.data]
                self.elements[param] = self.elements[buffer.data]
                shape = ", ".join(map(str, buffer.shape))
                self.comments.append(f"{name}: {buffer.dtype}[{shape}]")
            elif param.dtype.code == "handle":
                found = self.used.get(param)
                self._parameter(param, param.name, pointee(param) or (ctype(kept(found.element)) if found else ""))
            else:
                name = self.names.fresh(param.name)
                self.variables[param] = Text(name)
                self.params.append(f"{ctype(param.dtype)} {name}")

    def _parameter(self, var: Var, name: str, element: str) -> str:
        """Declares a pointer parameter, and returns its name."""
        name = self.names.fresh(name)
        self.variables[var], self.elements[var] = Text(name), element
        const = "const " if element and var not in self.written else ""
        alone = "restrict " if element and self.noalias and var not in self.shared and var in self.used else ""
        self.params.append(f"{const}{element or 'void'}* {alone}{name}")
        return name

    def body(self, stmt: Stmt) -> None:
        self.stmt(stmt)

    def text(self, head: str, result: str = "int32_t") -> str:
        """The text of the finished function. head: its declaration before the parameters."""
        assert len(self.scopes) == 1
        comment = [f"/* {'; '.join(self.comments)} */".replace("*/ */", "*/")] if self.comments else []
        # Compilers warn of parameters that nothing reads; those of a model's entry are the same for all models.
        words = set(_WORD.findall("\n".join(self.scopes[0].lines)))
        names = [re.split(r"[ *]", p)[-1] for p in self.params]
        unused = [f"  (void){name};" for name in names if name not in words]
        last = [] if result != "int32_t" else ["  return 0;"]
        return "\n".join(
            [*comment, f"{head}({', '.join(self.params) or 'void'}) {{", *unused, *self.scopes[0].lines, *last, "}"]
        )

    # --- calls between functions

    def call_function(self, e: Call) -> Text:
        assert isinstance(e.op, GlobalVar)
        name, func = self.module.callee(e.op, self, e)
        given = []
        for param, arg in zip(func.params, e.args, strict=True):
            text = self.expr(arg)
            pointer = param in func.buffer_map or param.dtype.code == "handle"
            given.append(f"(void*){text.at(UNARY)}" if pointer else text)
        text = self.function(name, *given)
        self.forget()
        if value_type(func) is None:
            self.check(text)
            return Text("0")
        return self.now(text, e.dtype)

    # --- parts that become functions

    def _part(self, hint: str, stmt: Stmt, without: tuple[Var, ...] = ()) -> tuple[FunctionEmitter, list[Var]]:
        """(emitter for a part of this function, the variables that the part captures)."""
        root = function_name(self.name.removesuffix("_impl"))
        count = self.module.count(f"{root}_{hint}")
        child = FunctionEmitter(self.module, f"{root}_{hint}{count}", self)
        taken = [v for v in undefined_vars(stmt, without) if v in self.variables]
        for var in taken:
            if var.dtype.code == "handle":
                child._parameter(var, var.name, self.elements.get(var, ""))
            else:
                name = child.names.fresh(var.name)
                child.variables[var] = Text(name)
                child.params.append(f"{ctype(var.dtype)} {name}")
        return child, taken

    def compute(self, s: AttrStmt) -> None:
        """Emits the body of a packed function as a function of its own, whose pointers do not overlap."""
        child, taken = self._part("compute", s.body)
        child.stmt(s.body)
        self.module.functions.append(child.text(f"static int32_t {child.name}"))
        self.check(self.function(child.name, *[self.variables[v] for v in taken]))

    def parallel(self, s: For) -> None:
        kind, (low, high) = ctype(s.loop_var.dtype), self.bounds(s)
        if not low.isidentifier():
            low = self.temporary(low, s.loop_var.dtype, f"{s.loop_var.name}_begin")
        if not high.isidentifier():
            high = self.temporary(high, s.loop_var.dtype, f"{s.loop_var.name}_end")
        child, taken = self._part("parallel", s.body, (s.loop_var,))
        child.in_parallel = True
        child.ranges = dict(self.ranges)
        begin, end = child.names.fresh("begin"), child.names.fresh("end")
        fields = [*zip(child.params, [self.variables[v] for v in taken], strict=True)]
        child.params += [f"{kind} {begin}", f"{kind} {end}"]
        child.counted(s, begin, end)
        self.module.functions.append(child.text(f"static int32_t {child.name}"))
        self._task(child, [p.replace("restrict ", "") for p, _ in fields], kind)
        data = self.names.fresh("data")
        given = ", ".join([*[text for _, text in fields], low, high])
        self.line(f"{child.name}_data {data} = {{{given}}};")
        self.module.uses_context = True
        self.forget()
        self.check(Text(f"tw_parallel({child.name}_task, &{data}, (int64_t){high} - {low})"))

    def _task(self, child: FunctionEmitter, fields: list[str], kind: str) -> None:
        """Emits the function that a thread runs: a contiguous share of the iterations."""
        members = [*fields, f"{kind} tw_begin", f"{kind} tw_end"]
        names = [f.rpartition(" ")[2] for f in fields]
        given = "".join([f"d->{n}, " for n in names])
        lines = [f"typedef struct {{ {' '.join([f'{m};' for m in members])} }} {child.name}_data;"]
        lines += [
            f"static int32_t {child.name}_task(int32_t task, int32_t count, void* data) {{",
            f"  const {child.name}_data* d = data;",
            "  const int64_t rounds = (int64_t)d->tw_end - d->tw_begin;",
            f"  const {kind} low = ({kind})(d->tw_begin + task * rounds / count);",
            f"  const {kind} high = ({kind})(d->tw_begin + (task + 1) * rounds / count);",
            f"  return {child.name}({given}low, high);",
            "}",
        ]
        self.module.functions.append("\n".join(lines))


FunctionEmitter._table = EXPRESSIONS.rules(FunctionEmitter)
FunctionEmitter._stmts = STATEMENTS.rules(FunctionEmitter)
FunctionEmitter._calls = INTRINSICS.rules(FunctionEmitter)


def parameter_types(func: PrimFunc) -> list[str]:
    """The C types of a function's parameters, for its declaration in another text."""
    return ["void*" if p in func.buffer_map or p.dtype.code == "handle" else ctype(p.dtype) for p in func.params]


__all__ = ["FunctionEmitter", "parameter_types"]
