"""Visitors and mutators: dispatch through a table keyed by type, children walked by code generated per node type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from tilewright.node.base import DEF, SKIP, Field, Node

F = TypeVar("F", bound=Callable[..., Any])

_ATOMS = frozenset({"int", "str", "bool", "float", "DataType", "None", "tuple"})
_BOUND_NAMES = frozenset({"Var", "tuple[Var, ...]"})


def on(*types: type) -> Callable[[F], F]:
    """Marks a method of a Visitor or Mutator as the handler of these node types and their subclasses."""

    def mark(method: F) -> F:
        method._on_types = types  # type: ignore[attr-defined]
        return method

    return mark


class _Dispatcher:
    _handlers: ClassVar[dict[type, Callable[..., Any]]] = {}
    _table: ClassVar[dict[type, Callable[..., Any]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        handlers: dict[type, Callable[..., Any]] = {}
        for base in reversed(cls.__mro__):
            for method in vars(base).values():
                for t in getattr(method, "_on_types", ()):
                    # The most derived override of a marked method serves, whether marked again or not.
                    handlers[t] = getattr(cls, method.__name__)
        cls._handlers = handlers
        cls._table = {}

    def visit(self, node: Any) -> Any:
        handler = self._table.get(type(node))
        if handler is None:
            handler = self._resolve(type(node))
        return handler(self, node)

    @classmethod
    def _resolve(cls, node_type: type) -> Callable[..., Any]:
        for base in node_type.__mro__:
            if base in cls._handlers:
                handler = cls._handlers[base]
                break
        else:
            handler = cls._default(node_type)
        cls._table[node_type] = handler
        return handler

    @classmethod
    def _default(cls, node_type: type) -> Callable[..., Any]:
        raise NotImplementedError  # overridden by Visitor and Mutator


def _is_atomic(annotation: str) -> bool:
    """Whether a field holds nothing but numbers, strings and tuples of them."""
    return _ATOMS.issuperset(re.findall(r"\w+", annotation))


def _is_tuple(annotation: str) -> bool:
    return annotation.startswith("tuple[") and " | None" not in annotation


def _walked(cls: type[Node]) -> Iterable[Field]:
    """Fields that functors enter: not names being bound (those are no uses), not atoms, not skipped ones."""
    for f in cls._fields:
        if f.kind is SKIP or _is_atomic(f.annotation) or (f.kind is DEF and f.annotation in _BOUND_NAMES):
            continue
        yield f


class Visitor(_Dispatcher):
    """Walks a program. Handlers marked `@on(...)` run for their types; `visit_children` goes on below."""

    @classmethod
    def _default(cls, node_type: type) -> Callable[..., Any]:
        if not issubclass(node_type, Node):
            return Visitor._visit_plain
        return Visitor._nothing if node_type._leaf else _children_walker(node_type)

    def visit_children(self, node: Node) -> None:
        _children_walker(type(node))(self, node)

    def _nothing(self, node: Any) -> None:
        pass

    def _visit_plain(self, value: Any) -> None:
        if type(value) in (tuple, list):
            for item in value:
                self.visit(item)
        elif isinstance(value, Mapping):
            for item in value.values():
                self.visit(item)


_walkers: dict[type, Callable[..., None]] = {}
_rebuilders: dict[type, Callable[..., Any]] = {}


def _children_walker(cls: type[Node]) -> Callable[..., None]:
    walker = _walkers.get(cls)
    if walker is None:
        lines = ["def walk(self, x):", " v = self.visit"]
        for f in _walked(cls):
            if _is_tuple(f.annotation):
                lines.append(f" for c in x.{f.name}: v(c)")
            else:
                lines.append(f" v(x.{f.name})")
        env: dict[str, Any] = {}
        exec("\n".join(lines), env)
        walker = _walkers[cls] = env["walk"]
    return walker


class Mutator(_Dispatcher):
    """Rewrites a program. A handler returns the new node; what is unchanged comes back as the same object."""

    @classmethod
    def _default(cls, node_type: type) -> Callable[..., Any]:
        if not issubclass(node_type, Node):
            return Mutator._mutate_plain
        return Mutator._same if node_type._leaf else _rebuilder(node_type)

    def rebuild(self, node: Any) -> Any:
        """The node with its children mutated; the same object if none of them changed."""
        return _rebuilder(type(node))(self, node)

    def _same(self, node: Any) -> Any:
        return node

    def _mutate_plain(self, value: Any) -> Any:
        if type(value) is tuple:
            return mutate_tuple(self.visit, value)
        if isinstance(value, Mapping) and value:
            new = {k: self.visit(v) for k, v in value.items()}
            return new if any([new[k] is not v for k, v in value.items()]) else value
        return value


def mutate_tuple(visit: Callable[[Any], Any], items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Mutates each item; the same tuple if none changed."""
    new = tuple([visit(item) for item in items])
    for a, b in zip(new, items, strict=True):
        if a is not b:
            return new
    return items


def _rebuilder(cls: type[Node]) -> Callable[..., Any]:
    rebuild = _rebuilders.get(cls)
    if rebuild is None:
        walked = {f.name for f in _walked(cls)}
        lines = ["def rebuild(self, x):", " v = self.visit"]
        tests = []
        for f in cls._fields:
            if f.name in walked:
                if _is_tuple(f.annotation):
                    lines.append(f" {f.name}_ = x.{f.name}")
                    lines.append(f" {f.name} = mutate_tuple(v, {f.name}_) if {f.name}_ else {f.name}_")
                else:
                    lines.append(f" {f.name}_ = x.{f.name}; {f.name} = v({f.name}_)")
                tests.append(f"{f.name} is {f.name}_")
        if tests:
            lines.append(f" if {' and '.join(tests)}: return x")
            values = ", ".join(f.name if f.name in walked else f"x.{f.name}" for f in cls._fields)
            lines.append(f" return build({values})")
        else:
            lines.append(" return x")
        env: dict[str, Any] = {"mutate_tuple": mutate_tuple, "build": cls.from_fields}
        exec("\n".join(lines), env)
        rebuild = _rebuilders[cls] = env["rebuild"]
    return rebuild


class _PostOrder(Visitor):
    def __init__(self, call: Callable[[Node], None]) -> None:
        self.call = call
        self.seen: set[int] = set()

    @on(Node)
    def _node(self, x: Node) -> None:
        if id(x) not in self.seen:
            self.seen.add(id(x))
            if not x._leaf:
                self.visit_children(x)
            self.call(x)


def post_order_visit(node: Any, visit: Callable[[Node], None]) -> None:
    """Calls `visit` once for every node below and including `node`, children first, shared nodes once."""
    _PostOrder(visit).visit(node)
