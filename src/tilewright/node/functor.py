"""Visitors and mutators: dispatch through a table keyed by type, children walked by code generated per node type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, overload

from tilewright.node.base import DEF, SKIP, Field, Node

F = TypeVar("F", bound=Callable[..., Any])
N = TypeVar("N", bound=Node)
T = TypeVar("T")
S = TypeVar("S", covariant=True)


class _OfSort(Protocol[S]):
    """A node of a sort: in its place may stand any node of the sort, as any expression where an expression stands."""

    def _sort(self) -> S: ...


_ATOMS = frozenset({"int", "str", "bool", "float", "DataType", "None", "tuple"})
_BOUND_NAMES = frozenset({"Var", "tuple[Var, ...]"})


def on(*types: type) -> Callable[[F], F]:
    """Marks a method of a Visitor or Mutator as the handler of these node types and their subclasses."""

    def mark(method: F) -> F:
        method._on_types = types  # type: ignore[attr-defined]
        return method

    return mark


class _Table(dict[type, Callable[..., Any]]):
    """Handlers by node type; those of subclasses and the defaults are found when they are first needed."""

    def __init__(self, functor: type[_Dispatcher]) -> None:
        super().__init__()
        self._functor = functor

    def __missing__(self, node_type: type) -> Callable[..., Any]:
        handler = self[node_type] = self._functor._resolve(node_type)
        return handler


class _Through(dict[type, Callable[..., Any]]):
    """The table of a functor that overrides `visit`: every child goes through it."""

    def __missing__(self, node_type: type) -> Callable[..., Any]:
        self[node_type] = through = lambda functor, node: functor.visit(node)
        return through


class _Dispatcher:
    """`visit` calls the handler in `_table`. Generated walks call handlers themselves, from `_child_handlers`: a call less a node."""

    _handlers: ClassVar[dict[type, Callable[..., Any]]] = {}
    _table: ClassVar[dict[type, Callable[..., Any]]] = {}
    _child_handlers: ClassVar[dict[type, Callable[..., Any]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        handlers: dict[type, Callable[..., Any]] = {}
        for base in reversed(cls.__mro__):
            for method in vars(base).values():
                for t in getattr(method, "_on_types", ()):
                    # The most derived override of a marked method serves, whether marked again or not.
                    handlers[t] = getattr(cls, method.__name__)
        cls._handlers = handlers
        cls._table = _Table(cls)
        cls._child_handlers = cls._table if cls.visit is _Dispatcher.visit else _Through()

    def visit(self, node: Any) -> Any:
        return self._table[type(node)](self, node)

    @classmethod
    def _resolve(cls, node_type: type) -> Callable[..., Any]:
        for base in node_type.__mro__:
            if base in cls._handlers:
                return cls._handlers[base]
        return cls._default(node_type)

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
        return _nothing if node_type._leaf else _children_walker(node_type)

    def visit_children(self, node: Node) -> None:
        _children_walker(type(node))(self, node)

    def _visit_plain(self, value: Any) -> None:
        if type(value) in (tuple, list):
            for item in value:
                self.visit(item)
        elif isinstance(value, Mapping):
            for item in value.values():
                self.visit(item)


def _nothing(self: Visitor, node: Any) -> None:
    """The handler of what has no children; generated walks do not call it."""


def _same(self: Mutator, node: Any) -> Any:
    """The handler of what stays as it is; generated rewrites do not call it."""
    return node


_walkers: dict[type, Callable[..., None]] = {}
_rebuilders: dict[type, Callable[..., Any]] = {}


def _children_walker(cls: type[Node]) -> Callable[..., None]:
    walker = _walkers.get(cls)
    if walker is None:
        lines = ["def walk(self, x):", " table = self._child_handlers"]
        for f in _walked(cls):
            if _is_tuple(f.annotation):
                lines += [f" for c in x.{f.name}:", "  h = table[type(c)]", "  if h is not nothing: h(self, c)"]
            else:
                lines += [f" c = x.{f.name}", " h = table[type(c)]", " if h is not nothing: h(self, c)"]
        env: dict[str, Any] = {"nothing": _nothing}
        exec("\n".join(lines), env)
        # Where there is nothing to walk, callers are told so.
        walker = _walkers[cls] = env["walk"] if len(lines) > 2 else _nothing
    return walker


class Mutator(_Dispatcher):
    """Rewrites a program. A handler returns the new node; what is unchanged comes back as the same object."""

    if TYPE_CHECKING:

        @overload
        def visit(self, node: _OfSort[S]) -> S: ...
        @overload
        def visit(self, node: Any) -> Any: ...
        def visit(self, node: Any) -> Any: ...

    @classmethod
    def _default(cls, node_type: type) -> Callable[..., Any]:
        if not issubclass(node_type, Node):
            return Mutator._mutate_plain
        return _same if node_type._leaf else _rebuilder(node_type)

    def rebuild(self, node: N) -> N:
        """The node with its children mutated; the same object if none of them changed."""
        return _rebuilder(type(node))(self, node)

    def _mutate_plain(self, value: Any) -> Any:
        if type(value) is tuple:
            return mutate_tuple(self.visit, value)
        if isinstance(value, Mapping) and value:
            new = {k: self.visit(v) for k, v in value.items()}
            return new if any([new[k] is not v for k, v in value.items()]) else value
        return value


def mutate_tuple(visit: Callable[[Any], Any], items: tuple[T, ...]) -> tuple[T, ...]:
    """Mutates each item; the same tuple if none changed."""
    new = tuple([visit(item) for item in items])
    for a, b in zip(new, items, strict=True):
        if a is not b:
            return new
    return items


def _rebuilder(cls: type[N]) -> Callable[[Mutator, N], N]:
    rebuild = _rebuilders.get(cls)
    if rebuild is None:
        walked = {f.name for f in _walked(cls)}
        lines = ["def rebuild(self, x):", " table = self._child_handlers"]
        tests = []
        for f in cls._fields:
            name = f.name
            if name not in walked:
                continue
            if _is_tuple(f.annotation):
                lines += [
                    f" {name} = {name}_ = x.{name}",
                    f" if {name}_:",
                    "  new = []; changed = False",
                    f"  for c in {name}_:",
                    "   h = table[type(c)]",
                    "   if h is same: new.append(c)",
                    "   else:",
                    "    d = h(self, c)",
                    "    if d is not c: changed = True",
                    "    new.append(d)",
                    f"  if changed: {name} = tuple(new)",
                ]
            else:
                lines += [
                    f" {name} = {name}_ = x.{name}; h = table[type({name}_)]",
                    f" if h is not same: {name} = h(self, {name}_)",
                ]
            tests.append(f"{name} is {name}_")
        if tests:
            lines.append(f" if {' and '.join(tests)}: return x")
            values = ", ".join(f.name if f.name in walked else f"x.{f.name}" for f in cls._fields)
            lines.append(f" return build({values})")
        env: dict[str, Any] = {"same": _same, "build": cls.from_fields}
        exec("\n".join(lines), env)
        # Where there is nothing to rewrite, callers are told so.
        rebuild = _rebuilders[cls] = env["rebuild"] if tests else _same
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


def post_order_visit(stmt: Any, fvisit: Callable[[Node], None]) -> None:
    """Calls `fvisit` once for every node below and including `stmt`, children first, shared nodes once."""
    _PostOrder(fvisit).visit(stmt)


class _Any(Visitor):
    def __init__(self, holds: Callable[[Node], bool]) -> None:
        self.holds = holds
        self.seen: set[int] = set()
        self.found = False

    @on(Node)
    def _node(self, x: Node) -> None:
        if not self.found and id(x) not in self.seen:
            self.seen.add(id(x))
            self.found = self.holds(x)
            if not self.found and not x._leaf:
                self.visit_children(x)


def any_node(node: Any, holds: Callable[[Node], bool]) -> bool:
    """Whether a condition holds for any node below and including `node`; looks no further where it does."""
    walk = _Any(holds)
    walk.visit(node)
    return walk.found


def has_node(node: Any, *kinds: type[Node]) -> bool:
    """Whether any node below and including `node` is of one of these types."""
    return any_node(node, lambda x: isinstance(x, kinds))


def nodes_of(node: Any, *kinds: type[N]) -> list[N]:
    """The nodes of these types below and including `node`, children first, shared nodes once."""
    found: list[N] = []
    post_order_visit(node, lambda x: found.append(x) if isinstance(x, kinds) else None)
    return found
