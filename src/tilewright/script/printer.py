"""The printer core: hooks by node type, scopes of names, and the walk that turns a node into a document.

A dialect registers one function per node type: `@expr_hook(tir.Add)` returns an expression document,
`@stmt_hook(tir.For)` a list of statement documents. Hooks take the printer (for children, names and
options) and the node.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tilewright.node import VARIABLE, Node, ObjectPath, deep_recursion, save_json
from tilewright.node.field_values import find_leaf
from tilewright.script.doc import (
    Blank,
    Comment,
    Expr,
    Group,
    Line,
    Stmt,
    Writer,
    assign,
    by_key,
    dict_,
    identifier,
    list_,
    literal,
    quoted,
    text,
    value_doc,
)
from tilewright.script.underline import Printed
from tilewright.support import lazy

H = TypeVar("H", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class PrinterConfig:
    """Options of `script()`, named as in classic TVMScript.

    name: of the function or module. show_meta: print the metadata, without which the text is not whole.
    buffer_dtype, int_dtype, float_dtype: types that go without saying ("void" for none).
    verbose_expr: print the variables that an expression uses before it. num_context_lines: lines kept around what is
    underlined, None or -1 for all. show_object_address: names of variables and buffers end with their address.
    `path_to_*` name nodes by ObjectPath, `obj_to_*` by themselves. relax_prefix and show_all_struct_info say nothing of
    the dialects here.
    """

    name: str | None = None
    show_meta: bool = True
    ir_prefix: str = "I"
    tir_prefix: str = "T"
    relax_prefix: str = "R"
    module_alias: str = "cls"
    buffer_dtype: str = "float32"
    int_dtype: str = "int32"
    float_dtype: str = "void"
    verbose_expr: bool = False
    indent_spaces: int = 4
    print_line_numbers: bool = False
    num_context_lines: int | None = None
    syntax_sugar: bool = True
    show_object_address: bool = False
    show_all_struct_info: bool = True
    path_to_underline: Sequence[ObjectPath] | None = None
    path_to_annotate: Mapping[ObjectPath, str] | None = None
    obj_to_underline: Sequence[object] | None = None
    obj_to_annotate: Mapping[Any, str] | None = None

    def __post_init__(self) -> None:
        for field in ("ir_prefix", "tir_prefix", "module_alias"):
            if not getattr(self, field).isidentifier():
                raise ValueError(f"script: {field} must be a name, but is {getattr(self, field)!r}")
        if self.indent_spaces < 1:
            raise ValueError(f"script: indent_spaces must be at least 1, but is {self.indent_spaces}")

    @property
    def context_lines(self) -> int | None:
        return None if self.num_context_lines is None or self.num_context_lines < 0 else self.num_context_lines


_expr_hooks: dict[type, Callable[[Printer, Any], Expr]] = {}
_stmt_hooks: dict[type, Callable[[Printer, Any], list[Stmt]]] = {}
_data_hooks: dict[type, Callable[[Printer, Any], Expr]] = {}
_prologues: dict[str, str] = {}


def expr_hook(*types: type) -> Callable[[H], H]:
    """Registers the function that prints these node types (and subclasses) as an expression."""

    def register(hook: H) -> H:
        _expr_hooks.update(dict.fromkeys(types, hook))
        return hook

    return register


def data_hook(*types: type) -> Callable[[H], H]:
    """Registers the function that prints these types where Python data stands, as among annotations."""

    def register(hook: H) -> H:
        _data_hooks.update(dict.fromkeys(types, hook))
        return hook

    return register


def stmt_hook(*types: type) -> Callable[[H], H]:
    """Registers the function that prints these node types (and subclasses) as statements."""

    def register(hook: H) -> H:
        _stmt_hooks.update(dict.fromkeys(types, hook))
        return hook

    return register


def register_prefix(field_name: str, module: str) -> None:
    """Declares that the prefix in config field `field_name` stands for `tilewright.script.<module>`."""
    _prologues[field_name] = module


def _find(table: dict[type, Any], cls: type) -> Any:
    hook = table.get(cls)
    if hook is None:
        for base in cls.__mro__[1:]:
            if base in table:
                hook = table[cls] = table[base]
                break
    return hook


def has_stmt_hook(cls: type) -> bool:
    """Whether nodes of that type print as statements."""
    return _find(_stmt_hooks, cls) is not None


class Printer:
    """State of one printing: options, names in use, and the metadata that has no syntax."""

    def __init__(self, config: PrinterConfig) -> None:
        self.config = config
        self.used: set[str] = set()
        # What the syntax of programs needs under its own name.
        self._reserved = {config.tir_prefix, config.ir_prefix, config.module_alias, "range", "float", "metadata"}
        self.prefixes: set[str] = set()
        self.metadata: dict[str, list[Any]] = {}
        self.concise = True
        self.function_name: str | None = None
        # The names of the functions of the module that is being printed.
        self.module_functions: set[str] | None = None
        self.free: list[Stmt] = []
        self.facts: dict[int, Any] = {}
        self._next: dict[str, int] = {}
        self._names: dict[int, Callable[[], Expr] | str] = {}
        self._kept: list[object] = []
        self._free: set[int] = set()
        # Variables inside of the metadata, which must stay the same as those of the program.
        self._inside: set[int] = set()
        self._slots: dict[int, tuple[list[Stmt], int]] = {}
        # What each open scope binds: the node, its name, and what the node stood for before.
        self._scopes: list[list[tuple[int, str | None, Any]]] = [[]]

    def again(self) -> Printer:
        """A printer for the same program, in which the names of the header are taken already."""
        other = Printer(self.config)
        other._free, other._kept = self._free, self._kept
        other.metadata = self.metadata
        for entries in self.metadata.values():
            for entry in entries:
                _collect_variables(entry, other._inside, set())
        other._names = {key: self._names[key] for key in self._free}
        other.used = {name for name in other._names.values() if isinstance(name, str)}
        other.prefixes = set(self.prefixes)
        other.free = [other._kept_variable(line) for line in self.free]
        return other

    def _kept_variable(self, line: Stmt) -> Stmt:
        """The declaration of a free variable, from the metadata where that has it too."""
        if not isinstance(line.node, Node) or id(line.node) not in self._inside:
            return line
        return assign(text(str(self._names[id(line.node)])), self.entry(line.node), node=line.node)

    # --- names

    def fresh(self, hint: str) -> str:
        """An identifier that no visible name has, as near to `hint` as can be."""
        name = identifier(hint)
        if name in self.used or name in self._reserved:
            base, n = name, self._next.get(name, 1)
            while (name := f"{base}_{n}") in self.used:
                n += 1
            self._next[base] = n + 1
        return name

    def define(self, node: object, hint: str) -> Expr:
        """Binds `node` to a fresh name until the scope ends, and returns the name.

        A node that was used before keeps the name that it has there, and is bound under it.
        """
        if id(node) in self._free:
            return Expr((str(self._names[id(node)]),), node=node)
        name = self.fresh(self._addressed(node, hint))
        self.used.add(name)
        self._bind(node, name, name)
        return Expr((name,), node=node)

    def _addressed(self, node: object, hint: str) -> str:
        return f"{hint}_{id(node):#x}" if self.config.show_object_address else hint

    def define_as(self, node: object, doc: Callable[[], Expr]) -> None:
        """Binds `node` to another text, such as a buffer's data pointer to `A.data`."""
        self._bind(node, doc, None)

    def define_free(self, node: object, hint: str) -> Expr:
        """Binds `node`, which is used before anything in the program binds it, to a fresh name for good."""
        name = self.fresh(self._addressed(node, hint))
        self.used.add(name)
        self._names[id(node)] = name
        self._free.add(id(node))
        self._kept.append(node)
        return Expr((name,), node=node)

    def open_slot(self, node: object) -> Group:
        """A place in the program right after `node` is bound, where what rests on it can be declared later."""
        lines: list[Stmt] = []
        self._slots[id(node)] = (lines, len(self._scopes) - 1)
        return Group(lines)

    def define_after(self, anchor: object, node: object, hint: str) -> tuple[Expr, list[Stmt]] | None:
        """Binds `node` where `anchor` was bound; the lines to declare it in, or None when there is no such place."""
        if not self.is_defined(anchor) or id(anchor) not in self._slots:
            return None
        lines, depth = self._slots[id(anchor)]
        name = self.fresh(hint)
        self.used.add(name)
        self._names[id(node)] = name
        self._kept.append(node)
        self._scopes[depth].append((id(node), name, None))
        return Expr((name,), node=node), lines

    def _bind(self, node: object, value: Callable[[], Expr] | str, name: str | None) -> None:
        self._scopes[-1].append((id(node), name, self._names.get(id(node))))
        self._names[id(node)] = value
        self._kept.append(node)

    def is_defined(self, node: object) -> bool:
        return id(node) in self._names

    def name(self, node: object) -> Expr | None:
        """The text bound to `node`, or None."""
        bound = self._names.get(id(node))
        if bound is None:
            return None
        return Expr((bound,), node=node) if isinstance(bound, str) else bound().of(node)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names defined inside end with it."""
        self._scopes.append([])
        try:
            yield
        finally:
            for key, name, before in reversed(self._scopes.pop()):
                if before is None:
                    self._names.pop(key, None)
                else:
                    self._names[key] = before
                self._slots.pop(key, None)
                if name is not None:
                    self.used.discard(name)
                    # Numbering starts over, so that sibling scopes read alike.
                    self._next.pop(name.rsplit("_", 1)[0], None)

    # --- documents

    def prefix(self, field_name: str, member: str) -> Expr:
        """`T.member`, with the prefix that the options give to a dialect."""
        self.prefixes.add(field_name)
        return text(f"{getattr(self.config, field_name)}.{member}")

    def expr(self, node: Any) -> Expr:
        hook = _find(_expr_hooks, type(node))
        if hook is not None:
            doc: Expr = hook(self, node)
            return doc.of(node) if doc.node is not node else doc
        return self.data(node)

    def stmts(self, node: Any) -> list[Stmt]:
        hook = _find(_stmt_hooks, type(node))
        if hook is not None:
            docs: list[Stmt] = hook(self, node)
            note = self.config.obj_to_annotate.get(node) if self.config.obj_to_annotate else None
            return docs if note is None else [Comment(note), *docs]
        return [Line(self.expr(node), node=node)]

    def body(self, node: Any, concise: bool = True) -> list[Stmt]:
        """Statements inside a suite. `concise` holds at the end of a scope, where a `with` can be a plain line."""
        saved, self.concise = self.concise, concise
        docs = self.stmts(node)
        self.concise = saved
        return docs

    def data(self, value: Any) -> Expr:
        """Annotation values and attributes: Python data, nodes with syntax, or an entry of the metadata."""
        plain = value_doc(value)
        if plain is not None:
            return plain
        hook = _find(_data_hooks, type(value))
        if hook is not None:
            doc: Expr = hook(self, value)
            return doc.of(value)
        if isinstance(value, (list, tuple)):
            return list_([self.data(v) for v in value])
        if isinstance(value, dict):
            return dict_([(self.data(k), self.data(v)) for k, v in by_key(value)])
        if isinstance(value, Node) and _find(_expr_hooks, type(value)) is not None:
            return self.expr(value)
        if isinstance(value, Node):
            return self.entry(value)
        if _find(_expr_hooks, type(value)) is not None:
            return self.expr(value)
        leaf = find_leaf(type(value))
        return literal(repr(value)) if leaf is None else self._kept_entry(leaf.tag, value)

    def entry(self, node: Node) -> Expr:
        """A node that has no syntax, as an entry of the metadata."""
        return self._kept_entry(node.type_key, node).of(node)

    def _kept_entry(self, key: str, value: Any) -> Expr:
        self.prefixes.add("ir_prefix")
        entries = self.metadata.setdefault(key, [])
        number = next((i for i, e in enumerate(entries) if e is value), len(entries))
        if number == len(entries):
            entries.append(value)
        return Expr((f"metadata[{quoted(key)}][{number}]",))

    def stands_in_metadata(self, node: object) -> bool:
        """Whether an entry of the metadata contains this variable object."""
        return id(node) in self._inside


def _collect_variables(value: Any, out: set[int], seen: set[int]) -> None:
    if isinstance(value, (tuple, list)):
        for item in value:
            _collect_variables(item, out, seen)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _collect_variables((key, item), out, seen)
    elif isinstance(value, Node) and id(value) not in seen:
        seen.add(id(value))
        if value._identity is VARIABLE:
            out.add(id(value))
        for f in value._fields:
            _collect_variables(getattr(value, f.name), out, seen)


def print_doc(node: Any, config: PrinterConfig) -> Printed:
    """Prints a whole program: header comments, metadata, and the program itself."""
    if config.path_to_annotate:
        notes = {path.resolve(node): text for path, text in config.path_to_annotate.items()}
        config = replace(config, obj_to_annotate={**notes, **(config.obj_to_annotate or {})}, path_to_annotate=None)
    printer = Printer(config)
    with deep_recursion():
        docs = printer.stmts(node)
        if printer.free:
            # Names of the header must mean one thing in all of the program, so they are known from the start.
            printer = printer.again()
            docs = printer.stmts(node)
        if has_stmt_hook(type(node)) or config.verbose_expr:
            docs = [*_header(printer), *docs]
        writer = Writer(config.indent_spaces)
        for doc in docs:
            writer.stmt(doc)
    return Printed("".join(writer.pieces).rstrip("\n"), writer.spans, writer.nodes)


def underlined(node: Any, printed: Printed, config: PrinterConfig) -> str:
    """The printed text with what the options name marked below its lines."""
    marks = list(config.obj_to_underline or ())
    for path in config.path_to_underline or ():
        # A plain value has no text of its own, so the node that holds it is marked.
        found = [holder for p in path.steps() if printed.find(holder := p.resolve(node))]
        if not found:
            raise ValueError(f"script: nothing on the path {path} is printed")
        marks.append(found[-1])
    return printed.underline([(n, "") for n in marks], config.context_lines) if marks else printed.text


def print_short(node: Any) -> str:
    """The short form of an expression or statement, as `str(node)` gives it: no header, free names as they are."""
    printer = Printer(PrinterConfig())
    with deep_recursion():
        if not has_stmt_hook(type(node)):
            return str(printer.expr(node))
        writer = Writer()
        for doc in printer.stmts(node):
            writer.stmt(doc)
    return "".join(writer.pieces).rstrip("\n")


def _header(printer: Printer) -> list[Stmt]:
    package = "tvm" if sys.modules.get("tvm") is sys.modules["tilewright"] else "tilewright"
    docs: list[Stmt] = [
        Comment(f"from {package}.script import {module} as {getattr(printer.config, name)}")
        for name, module in _prologues.items()
        if name in printer.prefixes
    ]
    if printer.metadata and not printer.config.show_meta:
        docs += [Blank(), Comment("Metadata is left out; script(show_meta=True) shows it.")]
    elif printer.metadata:
        printed = save_json(dict(printer.metadata))
        docs += [Blank(), Line(f"metadata = {printer.config.ir_prefix}.load_json({quoted(printed)})")]
    free = [*printer.free, Blank()] if printer.free else []
    return [*docs, Blank(), *free] if docs else free


__getattr__, __dir__ = lazy.late(__name__)
