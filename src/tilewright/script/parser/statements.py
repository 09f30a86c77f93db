"""The walk over Python statements that builds a program; what each of them means is the dialect's."""

from __future__ import annotations

import ast
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from tilewright.script.parser.expressions import Expressions
from tilewright.script.parser.source import Source
from tilewright.support.errors import DiagnosticError, TVMError

Statements = Sequence[ast.stmt]


class IRBuilderFrame:
    """What a `with` of a program that Python builds begins and ends."""

    _callbacks: tuple[Callable[[], Any], ...] = ()

    def add_callback(self, callback: Callable[[], Any]) -> None:
        """A function that is called when the `with` has ended without an error."""
        self._callbacks = (*self._callbacks, callback)

    def ended(self, error: object) -> None:
        """Calls what is to be called, unless there was an error."""
        for callback in self._callbacks if error is None else ():
            callback()


class Scope(IRBuilderFrame):
    """The frame of an expression such as `T.allocate(...)`: a statement around others.

    It holds the body of `with scope as value:`, or, as a line of its own, all that follows it in its suite.
    """

    what = "a scope"
    inline = True
    # How a scope that is not inline is written.
    form = "write `with` before it and indent them below it"
    # The syntax tree of the statement or the header that it stands in.
    at: Any = None

    def named(self, p: ScriptParser, name: str) -> None:
        """Tells the scope, before it is entered, the name that its value gets."""

    def enter(self, p: ScriptParser) -> Any:
        """Begins the scope, and returns what `as` or an assignment names."""

    def leave(self, p: ScriptParser, body: Any) -> Any:
        """The statement around the finished body; None for no statement."""
        return body

    def __enter__(self) -> Any:
        """Begins the scope in a program that Python builds."""
        return active(self.what).begin(self)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        active(self.what).end(self, kind is None)
        self.ended(error)


class Frame:
    """A suite that is being read, described for error messages."""

    def __init__(self, what: str) -> None:
        self.what = what


class MetaVar:
    """A value that an assignment binds to a name, without making a variable of the program."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Returned(Exception):
    """Carries the value of `return` out of a macro."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class ScriptParser(Expressions):
    """Names, frames and the statements read so far."""

    # What is read, for error messages.
    what: ClassVar[str] = "a program"

    def __init__(self, source: Source, names: dict[str, Any], module: Any = None) -> None:
        super().__init__(source, names)
        self.module = module
        self.items: list[Any] = []
        self.frames: list[Frame] = []
        # The node that is being read, for errors that are found only after its parts.
        self.at: Any = None
        # Values that have no name yet, by id: (value, how to name it, where it was made).
        self.unnamed: dict[int, tuple[Any, Callable[[str], None], Any]] = {}
        # Whether Python runs the words, instead of a text being read; and the suites around the present one then.
        self.building = False
        self._begun: list[tuple[list[Any], int]] = []
        # The name that a function gives itself, when that is not the name of its definition.
        self.given_name: str | None = None
        # Variables that the text around the functions declares; what binds their name binds them.
        self.declared: dict[int, Any] = {}

    # --- what a dialect defines

    def function(self, node: ast.FunctionDef, **options: Any) -> Any:
        """The function of the dialect that a definition stands for."""
        raise TVMError("this dialect has no functions")

    def join(self, statements: list[Any]) -> Any:
        """One statement from several."""
        raise TVMError("this dialect has no statements")

    def bind(self, target: ast.Name, value: Any, annotation: ast.expr | None = None) -> None:
        """`name = value`."""
        self.name(target.id, value)
        self.define(target.id, value)

    def name(self, name: str, value: Any) -> bool:
        """Gives a value the name it is first assigned to; False when it has one."""
        found = self.unnamed.pop(id(value), None)
        if found is not None:
            found[1](name)
        return found is not None

    def store(self, target: ast.Subscript, value: Any) -> None:
        """`value[index] = value`."""
        raise self.error(target, f"{self.what} has no stores")

    def loop(self, node: ast.For, domain: Any) -> None:
        raise self.error(node, f"{self.what} has no loops")

    def branch(self, node: ast.If, test: Any) -> None:
        raise self.error(node, f"{self.what} has no conditions")

    def repeat(self, node: ast.While, test: Any) -> None:
        raise self.error(node, f"{self.what} has no while loops")

    def check(self, node: ast.Assert, test: Any, message: Any) -> None:
        raise self.error(node, f"{self.what} has no assertions")

    def effect(self, node: ast.Expr, value: Any) -> None:
        """An expression that stands as a statement."""

    def leave_with(self, node: ast.Return, value: Any) -> None:
        raise self.error(node, f"{self.what} has no return")

    # --- building

    def emit(self, statement: Any) -> None:
        self.items.append(statement)

    def open(self, scope: Scope) -> Any:
        """A scope around all that follows in this suite; the value that it gives."""
        if not scope.inline:
            raise TVMError(f"{scope.what} holds statements: {scope.form}")
        value = scope.enter(self)
        self.items.append(scope)
        return value

    def begin(self, scope: Scope) -> Any:
        """Enters a scope whose statements Python will run; the value that it gives."""
        if not self.building:
            raise TVMError(f"{scope.what} is entered by Python only inside of an IRBuilder")
        self._begun.append((self.items, len(self.frames)))
        self.items = []
        return scope.enter(self)

    def end(self, scope: Scope, finished: bool) -> None:
        """Leaves the innermost scope."""
        body = self.folded() if finished else None
        self.items, depth = self._begun.pop()
        made = scope.leave(self, body) if finished else None
        del self.frames[depth:]
        if made is not None:
            self.emit(made)

    def suite(self, nodes: Statements, frame: Frame | None = None) -> Any:
        """The statements of an indented block, as one."""
        outer, self.items = self.items, []
        if frame is not None:
            self.frames.append(frame)
        try:
            for node in nodes:
                self.statement(node)
            return self.folded()
        finally:
            self.items = outer
            if frame is not None:
                self.frames.pop()

    def placed(self, made: Any, node: Any, last: Any = None) -> None:
        """Tells a statement, unless it knows, its place: that of a syntax tree, or up to the end of another one."""

    def folded(self) -> Any:
        """The statements read so far as one; a scope on the way holds all that follows it."""
        body: list[Any] = []
        for item in reversed(self.items):
            if isinstance(item, Scope):
                try:
                    made = item.leave(self, self.join(body[::-1]))
                except (TypeError, ValueError, TVMError) as error:
                    if isinstance(error, DiagnosticError) or item.at is None:
                        raise
                    raise self.located(item.at, error) from error
                if item.at is not None:
                    self.placed(made, item.at)
                body = [] if made is None else [made]
            else:
                body.append(item)
        return self.join(body[::-1])

    # --- statements

    def statement(self, node: ast.stmt) -> None:
        handler = _HANDLERS.get(type(node))
        if handler is None:
            kind, remedy = _REFUSED.get(type(node), (type(node).__name__.lower(), ""))
            known = "there are assignments, calls, for, while, if, with, assert and pass"
            raise self.error(node, f"{self.what} has no statement of the kind {kind}", remedy or known)
        self.at = node
        count = len(self.items)
        try:
            handler(self, node)
        except (DiagnosticError, Returned):
            raise
        except Exception as error:
            raise self.located(node, error) from error
        for item in self.items[count:]:
            if isinstance(item, Scope):
                if item.at is None:
                    item.at = node
            else:
                self.placed(item, node)

    def _pass(self, node: ast.Pass) -> None:
        pass

    def _expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return
        value = self.eval(node.value)
        if isinstance(value, Scope):
            try:
                self.open(value)
            except TVMError as error:
                raise self.error(node, str(error)) from error
        elif value is not None:
            self.effect(node, value)

    def _assign(self, node: ast.Assign) -> None:
        value = self.eval(node.value)
        for target in node.targets:
            self.assign(target, value)

    def assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            if isinstance(value, MetaVar):
                self.define(target.id, value.value)
            else:
                self.bind(target, value)
        elif isinstance(target, ast.Subscript):
            self.store(target, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            try:
                values = [MetaVar(v) for v in value.value] if isinstance(value, MetaVar) else list(value)
            except TypeError:
                if len(target.elts) > 1 or isinstance(target.elts[0], ast.Starred):
                    what = f"one value of type {type(value).__name__} is assigned to {len(target.elts)} names"
                    raise self.error(target, what) from None
                # `v, = T.axis.remap("S", [i])`: one axis is not a list of axes.
                values = [value]
            starred = [i for i, t in enumerate(target.elts) if isinstance(t, ast.Starred)]
            if starred:
                at, rest = starred[0], len(target.elts) - starred[0] - 1
                some = values[at : len(values) - rest]
                if isinstance(value, MetaVar):
                    some = MetaVar([v.value for v in some])  # type: ignore[assignment]
                values[at : len(values) - rest] = [some]
            if len(values) != len(target.elts):
                raise self.error(target, f"{len(values)} values are assigned to {len(target.elts)} names")
            for t, v in zip(target.elts, values, strict=True):
                self.assign(t.value if isinstance(t, ast.Starred) else t, v)
        else:
            raise self.error(target, "only names and elements of buffers can be assigned")

    def _annotated(self, node: ast.AnnAssign) -> None:
        if not isinstance(node.target, ast.Name):
            raise self.error(node.target, "only a name can have an annotation")
        value = None if node.value is None else self.eval(node.value)
        self.bind(node.target, value, node.annotation)

    def _augmented(self, node: ast.AugAssign) -> None:
        target: Any = node.target
        # The syntax tree of the target says that it is stored to; as an operand it is read.
        value = self.operators[type(node.op)](self.eval(target), self.eval(node.value))
        self.assign(target, value)

    def _for(self, node: ast.For) -> None:
        if node.orelse:
            raise self.error(node.orelse[0], "a loop of a program has no else")
        source = node.iter
        if isinstance(source, ast.Call) and self.eval(source.func) is range:
            args, kwargs = self.arguments(source)
            try:
                domain = self.range(*args, **kwargs)
            except (TypeError, ValueError) as error:
                raise self.located(source, error) from error
        else:
            domain = self.eval(source)
        self.loop(node, domain)

    def range(self, *args: Any) -> Any:
        """The domain of a loop that `range(...)` means."""
        return range(*args)

    def _if(self, node: ast.If) -> None:
        self.branch(node, self.eval(node.test))

    def _while(self, node: ast.While) -> None:
        if node.orelse:
            raise self.error(node.orelse[0], "a loop of a program has no else")
        self.repeat(node, self.eval(node.test))

    def _assert(self, node: ast.Assert) -> None:
        self.check(node, self.eval(node.test), "" if node.msg is None else self.eval(node.msg))

    def _with(self, node: ast.With) -> None:
        self._within(node, 0)

    def _within(self, node: ast.With, position: int) -> None:
        """One item of a `with`, the others and the body inside of it."""
        item = node.items[position]
        scope = self.eval(item.context_expr)
        if not isinstance(scope, Scope):
            what = f"`with` takes a scope such as T.block(), but was given {type(scope).__name__}"
            raise self.error(item.context_expr, what)
        with self.scope():
            outer, self.items = self.items, []
            depth = len(self.frames)
            try:
                try:
                    if isinstance(item.optional_vars, ast.Name):
                        scope.named(self, item.optional_vars.id)
                    value = scope.enter(self)
                except (TypeError, ValueError, TVMError) as error:
                    raise (
                        error if isinstance(error, DiagnosticError) else self.located(item.context_expr, error)
                    ) from error
                if isinstance(item.optional_vars, ast.Name):
                    if value is None:
                        raise self.error(item.optional_vars, f"{scope.what} gives no value that could be named")
                    self.name(item.optional_vars.id, value)
                    self.define(item.optional_vars.id, value)
                elif item.optional_vars is not None and getattr(item.optional_vars, "elts", True):
                    # `as []` is the older way of saying that nothing is named.
                    raise self.error(item.optional_vars, "a scope gives one value, which one name can take")
                if position + 1 < len(node.items):
                    self._within(node, position + 1)
                else:
                    for inner in node.body:
                        self.statement(inner)
                body = self.folded()
                self.at = item.context_expr
                made = scope.leave(self, body)
                self.placed(made, node if position == 0 else item.context_expr, item.context_expr)
            except DiagnosticError:
                raise
            except (TypeError, ValueError, TVMError) as error:
                raise self.located(item.context_expr, error) from error
            finally:
                self.items = outer
                del self.frames[depth:]
        if made is not None:
            self.emit(made)

    def _return(self, node: ast.Return) -> None:
        value = None if node.value is None else self.eval(node.value)
        if self.frames and isinstance(self.frames[-1], MacroFrame):
            raise Returned(value)
        self.leave_with(node, value)

    def _definition(self, node: ast.FunctionDef) -> None:
        for decorator in node.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            if getattr(self.eval(target), "makes_macro", False):
                options = {} if not isinstance(decorator, ast.Call) else self.arguments(decorator)[1]
                self.define(node.name, InnerMacro(self, node, **options))
                return
        raise self.error(node, "a program has no functions inside of functions", "a @T.macro can be defined here")

    # --- macros

    def expand(self, macro: Macro, args: dict[str, Any]) -> Any:
        """Reads the body of a macro at this place."""
        saved = self.source, self.names, self._hidden
        self.source = macro.source
        if macro.hygienic:
            self.names = dict(macro.names())
        else:
            self.names = {**macro.names(), **self.names}
        self._hidden = [*self._hidden, {}]
        depth = len(self.frames)
        self.frames.append(MacroFrame(self.frames[-1].what if self.frames else "macro"))
        try:
            for name, value in args.items():
                self.define(name, value)
            for node in macro.node.body:
                self.statement(node)
        except Returned as result:
            return result.value
        finally:
            self.source, self.names, self._hidden = saved
            del self.frames[depth:]
        return None

    def call(self, node: ast.Call, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if isinstance(getattr(function, "func", function), Macro):
            try:
                return function(*args, **kwargs)
            except DiagnosticError as error:
                raise DiagnosticError(
                    f"{error}\n{self.source.report(node, 'in a macro that is used here')[7:]}"
                ) from error
        return function(*args, **kwargs)


class MacroFrame(Frame):
    """The body of a macro inside of another suite; it is transparent for what stands in it."""


class Macro:
    """A piece of program that is read anew at each place where it is called.

    hygienic: names that are not parameters mean what they meant at the definition, else what they
    mean at the place of the call.
    """

    def __init__(self, source: Source, node: ast.FunctionDef, func: Any, names: dict[str, Any], hygienic: bool) -> None:
        self.source, self.node, self.hygienic = source, node, hygienic
        self._func, self._names = func, names
        self.__name__ = node.name

    def names(self) -> dict[str, Any]:
        return {**self._func.__globals__, **self._names}

    def signature(self) -> inspect.Signature:
        return inspect.signature(self._func)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        import functools

        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = self.signature().bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"the macro {self.__name__}{self.signature()}: {error}") from None
        bound.apply_defaults()
        return active(f"the macro {self.__name__}").expand(self, dict(bound.arguments))


class InnerMacro(Macro):
    """A macro that is defined inside of a program."""

    def __init__(self, parser: ScriptParser, node: ast.FunctionDef, hygienic: bool = True) -> None:
        super().__init__(parser.source, node, None, dict(parser.names), hygienic)
        self._signature = parser.signature(node.args)

    def names(self) -> dict[str, Any]:
        return self._names

    def signature(self) -> inspect.Signature:
        return self._signature


class _Active(threading.local):
    parser: ScriptParser | None = None


_active = _Active()


def active(what: str) -> ScriptParser:
    """The parser that is reading a program now. Raises TVMError, naming `what` was asked for, when there is none."""
    if _active.parser is None:
        raise TVMError(f"{what} means something only inside of a program that is being parsed")
    return _active.parser


def active_or_none() -> ScriptParser | None:
    return _active.parser


@contextmanager
def reading(parser: ScriptParser) -> Iterator[None]:
    """The parser that vocabulary functions called inside belong to."""
    saved, _active.parser = _active.parser, parser
    try:
        yield
    finally:
        _active.parser = saved


_HANDLERS: dict[type, Callable[[Any, Any], None]] = {
    ast.Pass: ScriptParser._pass,
    ast.Expr: ScriptParser._expr,
    ast.Assign: ScriptParser._assign,
    ast.AnnAssign: ScriptParser._annotated,
    ast.AugAssign: ScriptParser._augmented,
    ast.For: ScriptParser._for,
    ast.If: ScriptParser._if,
    ast.While: ScriptParser._while,
    ast.Assert: ScriptParser._assert,
    ast.With: ScriptParser._with,
    ast.Return: ScriptParser._return,
    ast.FunctionDef: ScriptParser._definition,
}

# What Python has and programs do not: its name, and what to write instead.
_OUTSIDE = "write it outside of the program, which sees the names around it"
_REFUSED: dict[type, tuple[str, str]] = {
    ast.Break: ("break", "use a while loop whose condition ends it"),
    ast.Continue: ("continue", "put the rest of the loop into an if"),
    ast.Import: ("import", _OUTSIDE),
    ast.ImportFrom: ("import", _OUTSIDE),
    ast.ClassDef: ("class", _OUTSIDE),
    ast.AsyncFunctionDef: ("async def", "a @T.macro can be defined here"),
    ast.AsyncFor: ("async for", ""),
    ast.AsyncWith: ("async with", ""),
    ast.Delete: ("del", "a name ends with its suite"),
    ast.Global: ("global", "names of the file can be used, and only buffers change"),
    ast.Nonlocal: ("nonlocal", "names around the program can be used, and only buffers change"),
    ast.Raise: ("raise", 'write assert condition, "message"'),
    ast.Match: ("match", "write if and elif"),
}
