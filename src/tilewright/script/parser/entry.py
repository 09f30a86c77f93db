"""Ways into the parser: decorated functions and classes, and text."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any

from tilewright.ir import BaseFunc, FuncType, GlobalVar, IRModule, PrimType, Type
from tilewright.ir.diagnostics import told
from tilewright.node import deep_recursion
from tilewright.script.parser.source import Source, class_definition, definition_at, file_source, whole_tree
from tilewright.script.parser.statements import Macro, ScriptParser, reading
from tilewright.support.errors import DiagnosticError

ParserType = Callable[[Source, dict[str, Any], Any], ScriptParser]


def captured_names(func: FunctionType, frame: FrameType | None) -> dict[str, Any]:
    """The values of names where a function is defined: globals, names of the frame, closure."""
    names = dict(func.__globals__)
    frames: list[FrameType] = []
    while frame is not None and frame.f_globals is func.__globals__ and len(frames) < 2:
        frames.append(frame)
        # The body of a class is run inside of the function that defines it.
        frame = frame.f_back if "__qualname__" in frame.f_locals else None
    for f in reversed(frames):
        if f.f_locals is not f.f_globals:
            names.update(f.f_locals)
    for name, cell in zip(func.__code__.co_freevars, func.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            continue
    return names


@told()
def function_from(func: Any, parser: ParserType, frame: FrameType | None, **options: Any) -> Any:
    """The program of a Python function. Inside of a class that is a module, the function is returned as it is."""
    if not inspect.isfunction(func):
        raise TypeError(f"a program is made of a function, but was given {type(func).__name__}: {func!r}")
    source = file_source(func.__code__.co_filename, func.__globals__)
    if frame is not None and "__qualname__" in frame.f_locals and _in_module(source, func, frame):
        return func
    node = definition_at(source, func.__code__.co_firstlineno, func.__name__)
    p = parser(source, captured_names(func, frame), None)
    with reading(p), deep_recursion():
        return p.function(node, **options)


def _in_module(source: Source, func: FunctionType, frame: FrameType) -> bool:
    """Whether the class whose body defines the function is decorated as a module."""
    line = func.__code__.co_firstlineno
    inside = [
        n
        for n in ast.walk(whole_tree(source))
        if isinstance(n, ast.ClassDef) and n.lineno <= line <= (n.end_lineno or n.lineno)
    ]
    if not inside:
        return False
    names = captured_names(func, frame)
    return _is_module(max(inside, key=lambda n: n.lineno), source, names)


def _is_module(node: ast.ClassDef, source: Source, names: dict[str, Any]) -> bool:
    p = ScriptParser(source, names)
    for decorator in node.decorator_list:
        try:
            value = p.eval(decorator.func if isinstance(decorator, ast.Call) else decorator)
        except DiagnosticError:
            continue
        if getattr(value, "makes_module", False):
            return True
    return False


def macro_from(func: Any, frame: FrameType | None, hygienic: bool) -> Macro:
    if not inspect.isfunction(func):
        raise TypeError(f"a macro is made of a function, but was given {type(func).__name__}: {func!r}")
    source = file_source(func.__code__.co_filename, func.__globals__)
    node = definition_at(source, func.__code__.co_firstlineno, func.__name__)
    return Macro(source, node, func, captured_names(func, frame), hygienic)


# --- modules


class ModuleName:
    """`cls` and the module's own name inside of a module: its attributes are the functions."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._functions: dict[str, GlobalVar] = {}
        # Macros and other values of the body.
        self._values: dict[str, Any] = {}
        # Calls of functions: the source and syntax tree of each, the name and the number of arguments.
        self._calls: list[tuple[Source, Any, str, int]] = []

    def __getattr__(self, name: str) -> Any:
        if name in self._values:
            return self._values[name]
        if name.startswith("_") or name not in self._functions:
            raise AttributeError(f"the module {self._name} has no function {name}")
        return self._functions[name]

    def __dir__(self) -> list[str]:
        return [*self._functions, *self._values]


class AnyModule(ModuleName):
    """`cls` outside of a module; functions of any name can be called through it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._functions.setdefault(name, GlobalVar(name))


class ModuleParser(ScriptParser):
    """The body of a class that is a module."""

    what = "the body of a module"

    def __init__(self, source: Source, names: dict[str, Any], module: Any = None) -> None:
        super().__init__(source, names, module)
        self.functions: dict[GlobalVar, BaseFunc] = {}
        # What a text or a builder has defined last.
        self.result: Any = None
        self.attrs: dict[str, Any] = {}
        self.global_infos: dict[str, Any] = {}

    def join(self, statements: list[Any]) -> Any:
        return None

    def parse(self, node: ast.ClassDef, **options: Any) -> IRModule:
        alias = ModuleName(node.name)
        definitions: list[ast.FunctionDef] = []
        for inner in node.body:
            if isinstance(inner, ast.FunctionDef) and not self._is_macro(inner):
                if inner.name in alias._functions:
                    raise self.error(inner, f"the module {node.name} has two functions named {inner.name}")
                alias._functions[inner.name] = GlobalVar(inner.name)
                definitions.append(inner)
        self.module = alias
        for definition in definitions:
            self._declare_result(alias._functions[definition.name], definition)
        functions = self.functions
        with self.scope(), reading(self):
            for name in ("cls", node.name):
                self.define(name, alias)
            for inner in node.body:
                if inner not in definitions:
                    self.statement(inner)
            for name in self.own_names():
                value = self.names[name]
                if isinstance(value, BaseFunc):
                    self.define(name, self.add_function(name, value))
                elif value is not alias:
                    alias._values[name] = value
            for definition in definitions:
                func = parse_definition(self, definition, in_module=True, **options)
                gvar = alias._functions[definition.name]
                functions[gvar if self.given_name is None else GlobalVar(self.given_name)] = func
        if options.get("check_well_formed", True):
            self._check_calls(alias)
        return IRModule(functions, attrs=self.attrs, global_infos=self.global_infos)

    def _declare_result(self, gvar: GlobalVar, node: ast.FunctionDef) -> None:
        """Notes the type that a function is annotated to return, for calls in functions before it."""
        note = None if node.returns is None else self.eval(node.returns)
        if note is not None and not isinstance(note, Type) and hasattr(note, "dtype"):
            note = PrimType(note.dtype)
        if isinstance(note, Type):
            object.__setattr__(gvar, "_checked_type", FuncType((), note))

    def _check_calls(self, alias: ModuleName) -> None:
        """Functions of the module are called with as many arguments as they take."""
        counts = {g.name_hint: len(getattr(f, "params", ())) for g, f in self.functions.items()}
        for source, node, name, count in alias._calls:
            takes = counts.get(name, count)
            if count != takes:
                what = f"{name} takes {takes} argument{'s' if takes != 1 else ''}, but was given {count}"
                raise source.error(node, what)

    def add_function(self, name: str, func: BaseFunc) -> GlobalVar:
        """Makes a function a member; its global name."""
        known = self.module._functions if isinstance(self.module, ModuleName) else {}
        gvar: GlobalVar = known.setdefault(name, GlobalVar(name))
        self.functions[gvar] = func
        return gvar

    def _is_macro(self, node: ast.FunctionDef) -> bool:
        decorators = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
        return any([getattr(self.eval(d), "makes_macro", False) for d in decorators])


def parse_definition(outer: ScriptParser, node: ast.FunctionDef, **options: Any) -> Any:
    """A function whose decorator says which dialect it is of."""
    for decorator in node.decorator_list:
        is_call = isinstance(decorator, ast.Call)
        value = outer.eval(decorator.func if is_call else decorator)  # type: ignore[attr-defined]
        parser: ParserType | None = getattr(value, "parser", None)
        if parser is not None:
            given = outer.arguments(decorator)[1] if isinstance(decorator, ast.Call) else {}
            p = parser(outer.source, dict(outer.names), outer.module)
            p.declared = outer.declared
            with reading(p):
                try:
                    made = p.function(node, **{**options, **given})
                except TypeError as error:
                    raise outer.located(decorator, error) from error
            outer.given_name = p.given_name
            return made
    raise outer.error(node, f"the function {node.name} has no decorator", "write @T.prim_func above it")


@told()
def module_from(cls: type, frame: FrameType | None, **options: Any) -> IRModule:
    """The module of a Python class."""
    if not inspect.isclass(cls):
        raise TypeError(f"a module is made of a class, but was given {type(cls).__name__}: {cls!r}")
    namespace = sys.modules[cls.__module__].__dict__ if cls.__module__ in sys.modules else {}
    members = [m for m in vars(cls).values() if isinstance(m, (FunctionType, Macro))]
    functions = [m if isinstance(m, FunctionType) else m._func for m in members]
    filename = functions[0].__code__.co_filename if functions else inspect.getfile(cls)
    source = file_source(filename, namespace)
    lines = [f.__code__.co_firstlineno for f in functions]

    def encloses(node: ast.ClassDef) -> bool:
        return all([node.lineno <= line <= (node.end_lineno or line) for line in lines])

    names = dict(namespace)
    if frame is not None and frame.f_locals is not frame.f_globals:
        names.update(frame.f_locals)
    for f in functions:
        for name, value in captured_names(f, None).items():
            names.setdefault(name, value)
    node = class_definition(source, cls.__qualname__, encloses)
    with deep_recursion():
        return ModuleParser(source, names).parse(node, **options)


# --- text


class _TextParser(ModuleParser):
    """A whole text: imports, values, functions and classes; what was defined last is the result."""

    def run(self, tree: ast.Module, **options: Any) -> Any:
        self.names.setdefault("cls", AnyModule("cls"))
        with reading(self):
            for node in tree.body:
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    try:
                        exec(compile(ast.Module([node], []), self.source.filename, "exec"), self.names)
                    except ImportError as error:
                        raise self.located(node, error) from error
                elif isinstance(node, ast.ClassDef):
                    if not _is_module(node, self.source, self.names):
                        raise self.error(node, f"the class {node.name} is not a module", "write @I.ir_module above it")
                    inner = ModuleParser(self.source, dict(self.names))
                    inner.declared = self.declared
                    self.result = inner.parse(node, **options)
                    self.define(node.name, self.result)
                elif isinstance(node, ast.FunctionDef) and not self._is_macro(node):
                    self.result = parse_definition(self, node, **options)
                    self.define(node.name, self.result)
                else:
                    self.statement(node)
        if self.result is None:
            raise self.error(tree, "the text holds neither a function nor a module")
        return self.result


@told()
def parse_text(program: str, names: dict[str, Any], **options: Any) -> Any:
    """The last function or module that a text defines."""
    source = Source("<string>", program.splitlines(keepends=True))
    with deep_recursion():
        return _TextParser(source, names).run(source.parse(), **options)
