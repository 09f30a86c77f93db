"""The parser of PrimFuncs: what Python's statements, operators and names mean in a tensor program."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from types import FunctionType
from typing import Any, ClassVar

import numpy as np

from tilewright.ir import DataType, GlobalVar, IntImm, PrimExpr, PrimType, Type, as_prim_expr
from tilewright.ir.span import Span
from tilewright.script.parser import Frame, Scope, ScriptParser
from tilewright.script.parser.entry import AnyModule
from tilewright.script.parser.statements import MacroFrame
from tilewright.support.errors import DiagnosticError, TVMError
from tilewright.tir import arithmetic as A
from tilewright.tir import op as tir_op
from tilewright.tir.arithmetic import EqualOp
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Call, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.parser.complete import with_root
from tilewright.tir.parser.frames import (
    AssertScope,
    BlockFrame,
    FunctionFrame,
    InnerFrame,
    LetScope,
    Loops,
    declared_var,
)
from tilewright.tir.parser.values import (
    LAZY,
    NUMBERS,
    OPERATORS,
    SPAN_SETTERS,
    is_producer,
    is_program,
    loop_domain,
    plain,
    renewed,
    set_span,
    store_to,
)
from tilewright.tir.parser.words import Word, rename_buffer, rename_var
from tilewright.tir.stmt import (
    BlockRealize,
    Evaluate,
    ForKind,
    IfThenElse,
    ProducerStore,
    SeqStmt,
    Stmt,
    While,
)

_TYPES = [f"{code}{bits}" for code in ("int", "uint", "float") for bits in (8, 16, 32, 64)][:-4] + [
    "float16",
    "float32",
    "float64",
]
# Where a function takes the place in the source, which no program gives.
_span_positions: dict[Any, int | None] = {}


class TirParser(ScriptParser):
    """The rules of tensor programs."""

    operators: ClassVar[dict[type, Callable[..., Any]]] = OPERATORS

    def __init__(self, source: Any, names: dict[str, Any], module: Any = None) -> None:
        super().__init__(source, names, module)
        if module is None:
            self.names.setdefault("cls", AnyModule("cls"))
        # Range of the loop of a variable, tag of a thread's variable, buffer of a data pointer, scope of a let.
        self.loops: dict[int, tuple[PrimExpr, PrimExpr]] = {}
        self.tags: dict[int, str] = {}
        self.by_data: dict[Var, Buffer] = {}
        self.lets: dict[int, int] = {}
        # Variables that are made inside of the function, and where.
        self.unbound: list[tuple[Var, Any]] = []
        self.detected: set[int] = set()
        # What is known by its id must not be freed.
        self.kept: list[Any] = []

    # --- places

    def made(self, node: ast.expr, value: Any) -> Any:
        setter = SPAN_SETTERS[type(value)]
        if setter is not None and value.span is None:
            # Nothing has seen the node yet, and its place is not part of what it is.
            setter(value, self.source.span(node))
        return value

    def placed(self, made: Any, node: Any, last: Any = None) -> None:
        span = None
        while isinstance(made, Stmt) and getattr(made, "span", made) is None:
            if span is None:
                span = self.source.span(node, last)
            set_span(made, span)
            made = made.block if isinstance(made, BlockRealize) else getattr(made, "body", None)

    # --- operators and connectives

    def decided(self, op: ast.boolop, value: Any) -> bool:
        return not isinstance(value, (PrimExpr, *LAZY)) and super().decided(op, value)

    def conjunction(self, a: Any, b: Any) -> Any:
        return self._join(a, b, A.logical_and) if is_program(a, b) else a and b

    def disjunction(self, a: Any, b: Any) -> Any:
        return self._join(a, b, A.logical_or) if is_program(a, b) else a or b

    def _join(self, a: Any, b: Any, build: Callable[[Any, Any], PrimExpr]) -> PrimExpr:
        p, q = (as_prim_expr(plain(v), "operand of a connective") for v in (a, b))
        for v in (p, q):
            if not v.dtype.is_bool:
                raise TypeError(f"`and` and `or` take conditions, but {v!r} is {v.dtype}; compare it with a number")
        return build(p, q)

    def negation(self, a: Any) -> Any:
        return A.logical_not(plain(a)) if is_program(a) else not a

    def choice(self, node: ast.IfExp, test: Any) -> Any:
        if is_program(test):
            return tir_op.if_then_else(plain(test), self.eval(node.body), self.eval(node.orelse))
        return super().choice(node, test)

    def index(self, value: Any, index: Any) -> Any:
        if isinstance(value, Var):
            raise TypeError(
                f"{value.name} is a variable, and only buffers have elements;"
                f" declare one with T.Buffer(shape, dtype, data={value.name})"
            )
        parts = index if isinstance(index, tuple) else (index,)
        if any([isinstance(i, slice) for i in parts]) and is_producer(value):
            from tilewright.tir.parser.producers import producer_region

            return producer_region(value, index)
        return value[index]

    def call(self, node: ast.Call, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if isinstance(function, GlobalVar):
            dtype = DataType(kwargs.pop("dtype")) if "dtype" in kwargs else tir_op.result_dtype(function)
            if kwargs:
                raise TypeError(f"a call of {function.name_hint} takes no argument {next(iter(kwargs))}")
            values = tuple([a.data if isinstance(a, Buffer) else a for a in args])
            if self.module is not None:
                self.module._calls.append((self.source, node, function.name_hint, len(values)))
            return Call(dtype, function, values)
        if type(function) is FunctionType:
            self.called(function, args)
        elif not callable(function):
            name = ast.unparse(node.func)
            remedy = f"its elements are {name}[...]" if isinstance(function, Buffer) else ""
            raise self.error(node, f"{name} is not a function, but {type(function).__name__}", remedy)
        return super().call(node, function, args, kwargs)

    def remedy(self, error: Exception) -> str:
        found = re.match(r"unknown data type '([^']*)'", str(error))
        return "" if found is None else self.near(found[1], [*_TYPES, "bool", "bfloat16", "handle"])

    def called(self, function: Any, args: list[Any]) -> None:
        """Refuses a place in the source as an argument: more are given than the word takes."""
        at = _span_positions.get(function, -1)
        if at == -1:
            code = getattr(inspect.unwrap(function), "__code__", None)
            names = code.co_varnames[: code.co_argcount] if code is not None else ()
            at = _span_positions[function] = names.index("span") if "span" in names else None
        if at is not None and len(args) > at:
            raise TypeError(f"{at} argument{'s' if at != 1 else ''} are taken, but {len(args)} were given")

    # --- frames

    def frame(self, what: str, *kinds: type[Frame]) -> Any:
        """The suite that is being read, which must be of one of these kinds."""
        for frame in reversed(self.frames):
            if isinstance(frame, kinds):
                return frame
            if not isinstance(frame, MacroFrame):
                kind = " or ".join(["a block" if k is BlockFrame else "a function" for k in kinds])
                raise TVMError(f"{what} stands directly in {kind}, but this is in {frame.what}")
        raise TVMError(f"{what} stands inside of a function")

    def join(self, statements: list[Any]) -> Stmt:
        if len(statements) == 1:
            only: Stmt = statements[0]
            return only
        if not statements:
            return Evaluate(IntImm("int32", 0))
        first, last = statements[0].span, statements[-1].span
        whole = None
        if first is not None and last is not None and first.source_name is last.source_name:
            whole = Span(first.source_name, first.line, last.end_line, first.column, last.end_column)
        return SeqStmt(tuple(statements), whole)

    # --- functions

    def function(self, node: ast.FunctionDef, **options: Any) -> PrimFunc:
        unknown = options.keys() - {"private", "check_well_formed", "implicit_root", "in_module"}
        if unknown:
            raise TypeError(
                f"T.prim_func takes private and check_well_formed, but was given {', '.join(sorted(unknown))}"
            )
        return self._function(node, **options)

    def _function(
        self,
        node: ast.FunctionDef,
        private: bool = False,
        check_well_formed: bool = True,
        implicit_root: bool = True,
        in_module: bool = False,
    ) -> PrimFunc:
        frame = FunctionFrame(node.name, private)
        if not private:
            frame.attrs["global_symbol"] = node.name
        with self.scope():
            self._parameters(node, frame)
            if node.returns is not None:
                frame.ret_type = self._type(node.returns, self.eval(node.returns))
            body = self.suite(node.body, frame)
        span = self.source.span(node)
        span = Span(span.source_name, span.line, span.line, span.column, span.column + len("def ") + len(node.name))
        try:
            func = self.finished(frame, body, implicit_root, span)
        except (TypeError, ValueError) as error:
            raise self.located(node, error) from error
        if check_well_formed:
            self._check_well_formed(node, func)
        return func

    def finished(
        self, frame: FunctionFrame, body: Stmt, implicit_root: bool = True, span: Span | None = None
    ) -> PrimFunc:
        """The function of a frame; the root block that goes without saying has its place."""
        if implicit_root:
            body = with_root(body, frame.allocations, self.detected)
            if isinstance(body, BlockRealize) and body.span is None:
                for root in (body, body.block):
                    set_span(root, span)
        return PrimFunc(frame.params, body, frame.ret_type, frame.buffer_map, frame.attrs, span)

    def _parameters(self, node: ast.FunctionDef, frame: FunctionFrame) -> None:
        args = node.args
        for extra in (args.vararg, args.kwarg, *args.kwonlyargs, *args.defaults):
            if extra is not None:
                raise self.error(extra, "a program's parameters are plain names, without defaults or stars")
        names: set[str] = set()
        for arg in [*args.posonlyargs, *args.args]:
            if arg.arg in names:
                raise self.error(arg, f"two parameters are named {arg.arg}")
            names.add(arg.arg)
            if arg.annotation is None:
                remedy = f"write {arg.arg}: T.handle, {arg.arg}: T.int32 or {arg.arg}: T.Buffer(shape, dtype)"
                raise self.error(arg, f"the parameter {arg.arg} has no type", remedy)
            self.at = arg.annotation
            note = self.eval(arg.annotation)
            if isinstance(note, Buffer):
                made: Var | Buffer = note if id(note) in self.unnamed else renewed(note, arg.arg)
            else:
                made = self._typed(arg.annotation, note, arg.arg)
            set_span(made, self.source.span(arg))
            self.add_parameter(frame, arg.arg, made)
            self.define(arg.arg, made)

    def add_parameter(self, frame: FunctionFrame, name: str, made: Var | Buffer) -> None:
        """One more parameter: a variable, or a buffer, which gets a handle."""
        self.name(name, made)
        if isinstance(made, Buffer):
            handle = Var(f"{name}_handle", "handle", made.span)
            frame.params.append(handle)
            frame.buffer_map[handle] = made
            # It defines the variables of its shape.
            self.by_data[made.data] = made
        else:
            self.unbound = [m for m in self.unbound if m[0] is not made]
            frame.params.append(made)

    def _typed(self, place: ast.expr, note: Any, name: str) -> Var:
        """A variable of an annotated type."""
        if isinstance(note, Word):
            return Var(name, note.dtype)
        if isinstance(note, Var) and id(note) in self.unnamed:
            self.name(name, note)
            self.unbound = [m for m in self.unbound if m[0] is not note]
            return note
        if isinstance(note, Var):
            # A variable that comes from outside, in the metadata of a printed program.
            return note
        if isinstance(note, Type):
            return Var(name, note)
        if isinstance(note, str):
            return Var(name, DataType(note))
        what = f"{ast.unparse(place)} is not a type, but {type(note).__name__}"
        raise self.error(place, what, "types are T.int32, T.handle, T.Buffer(shape, dtype) and their like")

    def _type(self, place: ast.expr, note: Any) -> Type | None:
        if note is None or isinstance(note, Type):
            return note
        if isinstance(note, Word):
            return PrimType(note.dtype)
        return self._typed(place, note, "result").type_annotation

    def _check_well_formed(self, node: ast.FunctionDef, func: PrimFunc) -> None:
        """Variables that were made inside of the function must be bound by it, each in one place."""
        from tilewright.tir import parser

        missing = parser.undefined_vars(func)
        for var, place in self.unbound if missing else ():
            if any([v is var for v in missing]):
                remedy = "let it be a dimension of a buffer of T.match_buffer, or make it a parameter"
                raise self.error(place, f"the variable {var.name} is used, but nothing gives it a value", remedy)
        found = parser.problems(func, missing)
        if found:
            what = f"{node.name} is not well-formed: " + "\nand: ".join(found)
            remedy = "where this is meant, write check_well_formed=False"
            raise DiagnosticError(f"error: {what}\n = {remedy}") if "-->" in what else self.error(node, what, remedy)

    # --- values and names

    def fresh_var(self, var: Var) -> Var:
        """A variable without a name, which its first assignment gives."""
        self.unnamed[id(var)] = (var, lambda name: rename_var(var, name), self.at)
        self.unbound.append((var, self.at))
        set_span(var, self.source.span(self.at))
        return var

    def fresh_buffer(self, buffer: Buffer, own: tuple[Any, ...]) -> Buffer:
        """A buffer without a name; `own` are the variables that are named after it."""
        self.unnamed[id(buffer)] = (buffer, lambda name: rename_buffer(buffer, own, name), self.at)
        set_span(buffer, self.source.span(self.at))
        self.by_data[buffer.data] = buffer
        return buffer

    def bound_var(self, name: str, dtype: str, place: ast.expr) -> Var:
        """The variable that a loop or a let binds: a new one, unless the text declares one of that name before."""
        return declared_var(self, name, Var(name, dtype, self.source.span(place)))

    def bind(self, target: ast.Name, value: Any, annotation: ast.expr | None = None) -> None:
        name = target.id
        if isinstance(value, Scope):
            value.named(self, name)
            value = self.open(value)
            self.name(name, value)
            self.define(name, value)
            return
        value = plain(value) if isinstance(value, EqualOp) else value
        if annotation is None and (self.name(name, value) or not isinstance(value, (PrimExpr, *NUMBERS))):
            self.define(name, value)
            return
        self._refuse_update(target)
        var: Var | None = None
        if annotation is not None:
            var = self._typed(annotation, self.eval(annotation), name)
            set_span(var, self.source.span(target))
            if value is None:
                self.define(name, var)
                return
            if isinstance(value, NUMBERS):
                if isinstance(value, (float, np.floating)) and not var.dtype.is_float:
                    raise self.error(target, f"{name} is declared as {var.dtype}, but its value is the float {value}")
                value = A.const(value, var.dtype)
        value = as_prim_expr(value, f"the value of {name}")
        if var is None:
            var = self.bound_var(name, value.dtype, target)
        elif var.dtype != value.dtype:
            raise self.error(target, f"{name} is declared as {var.dtype}, but its value is {value.dtype}")
        self.items.append(LetScope(var, value))
        self.lets[id(var)] = self.depth
        self.define(name, var)

    def _refuse_update(self, target: ast.Name) -> None:
        """A let cannot change the variable of a suite around it: the change would end with the inner suite."""
        old = self.names.get(target.id)
        depth = self.lets.get(id(old))
        if depth is not None and depth < self.depth and any([isinstance(f, InnerFrame) for f in self.frames]):
            raise self.error(
                target,
                f"{target.id} stands for one value, given outside of this suite, and cannot be changed in it",
                "keep a value that changes in a buffer: x = T.alloc_buffer((1,), dtype)",
            )

    def store(self, target: ast.Subscript, value: Any) -> None:
        buffer = self.eval(target.value)
        index = self.eval(target.slice)
        if is_producer(buffer):
            indices = index if isinstance(index, tuple) else (index,)
            self.emit(ProducerStore(buffer, as_prim_expr(plain(value), "the value of a store"), indices))
            return
        if not isinstance(buffer, Buffer):
            what = f"{ast.unparse(target.value)} is not a buffer, but {type(buffer).__name__}, so nothing can be stored to it"
            raise self.error(target.value, what, "declare a buffer with T.match_buffer, T.alloc_buffer or T.Buffer")
        try:
            self.emit(store_to(buffer, index, value))
        except (TypeError, ValueError) as error:
            raise self.located(target, error) from error

    def effect(self, node: ast.Expr, value: Any) -> None:
        value = plain(value)
        if isinstance(value, Stmt):
            self.emit(value)
        elif isinstance(value, (PrimExpr, *NUMBERS)):
            self.emit(Evaluate(as_prim_expr(value)))
        elif isinstance(value, (list, tuple)) and all([isinstance(v, Scope) for v in value]):
            for v in value:
                self.open(v)
        else:
            raise self.error(
                node, f"{ast.unparse(node)} gives a {type(value).__name__}, which does nothing as a statement"
            )

    # --- control

    def range(self, *args: Any) -> Loops:
        if len(args) == 3:
            raise TypeError("a loop of a program counts in ones: write range(begin, end) and scale the variable")
        return Loops(ForKind.SERIAL, [loop_domain(*args)])

    def loop(self, node: ast.For, domain: Any) -> None:
        if not isinstance(domain, Loops):
            what = f"a loop runs over range(...), T.grid(...), T.serial(...) and their like, not over {type(domain).__name__}"
            number = isinstance(domain, (PrimExpr, *NUMBERS))
            raise self.error(node.iter, what, f"write range({ast.unparse(node.iter)})" if number else "")
        loops: list[tuple[Var, PrimExpr, PrimExpr]] = []
        with self.scope():
            self._loop_vars(node.target, domain, loops)
            body = self.suite(node.body, InnerFrame("a loop"))
        self.emit(domain.around([v for v, _, _ in loops], body, self.source.span(node, node.iter)))

    def loop_variable(self, var: Var, domain: tuple[PrimExpr, PrimExpr]) -> None:
        """Takes note of a variable without a name, and of the loop that it counts."""
        self.loops[id(var)] = domain
        self.kept.append(var)
        self.unnamed[id(var)] = (var, lambda name: rename_var(var, name), self.at)

    def _loop_vars(self, target: ast.expr, domain: Loops, loops: list[tuple[Var, PrimExpr, PrimExpr]]) -> None:
        targets = list(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else [target]
        stars = [i for i, t in enumerate(targets) if isinstance(t, ast.Starred)]
        count, domains = len(domain.domains), iter(domain.domains)
        if len(targets) != count and not (stars and count >= len(targets) - 1):
            if len(targets) == 1 and isinstance(targets[0], ast.Name):
                stars = [0]
            else:
                raise self.error(target, f"there are {count} loops, but {len(targets)} variables")

        def make(name: str) -> Var:
            if any([name == v.name for v, _, _ in loops]):
                raise self.error(target, f"two of the loops have the variable {name}")
            low, extent = next(domains)
            var = self.bound_var(name, extent.dtype, target)
            loops.append((var, low, extent))
            self.loops[id(var)] = (low, extent)
            return var

        for i, t in enumerate(targets):
            inner = t.value if isinstance(t, ast.Starred) else t
            if not isinstance(inner, ast.Name):
                raise self.error(inner, "the variable of a loop is a plain name")
            if i in stars:
                some = count - (len(targets) - 1)
                self.define(inner.id, [make(f"{inner.id}_{k}") for k in range(some)])
            else:
                self.define(inner.id, make(inner.id))

    def _test(self, node: ast.expr, value: Any, what: str) -> PrimExpr:
        value = plain(value)
        if isinstance(value, (bool, np.bool_)):
            return IntImm("bool", int(value))
        if isinstance(value, PrimExpr) and value.dtype.is_bool and value.dtype.lanes == 1:
            return value
        found = value.dtype if isinstance(value, PrimExpr) else type(value).__name__
        raise self.error(node, f"{what} must be a bool, but is {found}", "compare it with a number")

    def branch(self, node: ast.If, test: Any) -> None:
        if isinstance(test, (bool, np.bool_)):
            for inner in node.body if test else node.orelse:
                self.statement(inner)
            return
        condition = self._test(node.test, test, "the condition of an if")
        with self.scope():
            then_case = self.suite(node.body, InnerFrame("an if"))
        else_case = None
        if node.orelse:
            with self.scope():
                else_case = self.suite(node.orelse, InnerFrame("an else"))
        self.emit(IfThenElse(condition, then_case, else_case, self.source.span(node, node.test)))

    def repeat(self, node: ast.While, test: Any) -> None:
        condition = self._test(node.test, test, "the condition of a while")
        with self.scope():
            body = self.suite(node.body, InnerFrame("a while loop"))
            self.emit(While(condition, body, self.source.span(node, node.test)))

    def check(self, node: ast.Assert, test: Any, message: Any) -> None:
        # Compiled programs have tuples of what the message is made of.
        if not isinstance(message, str) and not (isinstance(message, PrimExpr) and message.dtype == "handle"):
            found = type(plain(message)).__name__
            raise self.error(node.msg or node, f"the message of an assertion must be a string, but is {found}")
        self.items.append(AssertScope(self._test(node.test, test, "what is asserted"), as_prim_expr(message)))

    def leave_with(self, node: ast.Return, value: Any) -> None:
        if value is None:
            raise self.error(node, "a program returns a value or nothing at all", "leave the return out")
        self.emit(Evaluate(tir_op.ret(value)))
