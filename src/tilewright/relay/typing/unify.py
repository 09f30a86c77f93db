"""Unification of relay types: holes (IncompleteType) get solutions, type parameters stand for themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir import (
    FuncType,
    IncompleteType,
    IntImm,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)
from tilewright.ir.type_parts import map_parts, parts, substitute_types
from tilewright.node import structural_equal
from tilewright.relay.cards.relations import Dim, dims, is_any, known_equal, may_equal, merge_dim
from tilewright.tir import Any as AnyDim


class Unifier:
    """Solutions of holes. `solved` is called with each hole that gets one."""

    def __init__(self, solved: Callable[[IncompleteType], None] | None = None) -> None:
        self.solutions: dict[IncompleteType, Type] = {}
        self.solved = solved
        self.wide: set[IncompleteType] = set()
        """Holes that stand for values of several sizes: what solves them says nothing of dimensions that are no numbers."""
        self._closed: dict[int, Type] = {}
        """Types that hold no holes, solved or not, by identity: what holds them need not look into them again."""
        self._held: dict[int, tuple[Type, IncompleteType]] = {}
        """A hole in each type that was looked into, by identity."""
        self._resolved: dict[int, tuple[Type, Type]] = {}
        """Types as they are with the solutions so far, by identity."""

    def prune(self, t: Type) -> Type:
        """`t`, or what it was solved to; its parts are not looked into."""
        while type(t) is IncompleteType and t in self.solutions:
            t = self.solutions[t]
        return t

    def resolve(self, t: Type) -> Type:
        """`t` with every solved hole replaced; the same object if there is none."""
        t = self.prune(t)
        if type(t) is TensorType or not self.solutions or id(t) in self._closed:
            return t
        known = self._resolved.get(id(t))
        if known is None:
            known = self._resolved[id(t)] = (t, map_parts(t, self.resolve))
        return known[1]

    def hole(self, t: Type) -> IncompleteType | None:
        """One unsolved hole in `t`, if there is any."""
        t = self.prune(t)
        if type(t) is IncompleteType:
            return t
        if self.is_closed(t):
            return None
        held = self._held.get(id(t))
        if held is not None and held[1] not in self.solutions:
            return held[1]
        inner = parts(t)
        for part in inner:
            found = self.hole(part)
            if found is not None:
                self._held[id(t)] = (t, found)
                return found
        if all([self.is_closed(part) for part in inner]):
            self._closed[id(t)] = t
        return None

    def holes(self, t: Type) -> list[IncompleteType]:
        """The unsolved holes in `t`."""
        t = self.prune(t)
        if type(t) is IncompleteType:
            return [t]
        return [] if self.is_closed(t) else [h for part in parts(t) for h in self.holes(part)]

    def is_closed(self, t: Type) -> bool:
        """Whether a type is known to hold no holes, solved or not."""
        return type(t) is TensorType or id(t) in self._closed

    def unify(self, a: Type, b: Type, join: bool = False) -> Type | None:
        """The type that is both; None when they exclude each other.

        A symbolic dimension agrees with any number, which is the result. With `join` the result is the type of what may be of either type:
        dimensions that are not surely equal become one of which nothing is known.
        """
        a, b = self.prune(a), self.prune(b)
        if a is b:
            return a
        if type(a) is IncompleteType:
            return self.bind(a, b)
        if type(b) is IncompleteType:
            return self.bind(b, a)
        if isinstance(a, TensorType) and isinstance(b, TensorType):
            return unify_tensors(a, b, join)
        if isinstance(a, TupleType) and isinstance(b, TupleType):
            fields = self.unify_all(a.fields, b.fields, join)
            return None if fields is None else TupleType(fields)
        if isinstance(a, FuncType) and isinstance(b, FuncType):
            return self.unify_functions(a, b, join)
        if isinstance(a, TypeCall) and isinstance(b, TypeCall):
            args = self.unify_all(a.args, b.args, join)
            return TypeCall(a.func, args) if args is not None and a.func == b.func else None
        if isinstance(a, RefType) and isinstance(b, RefType):
            value = self.unify(a.value, b.value, join)
            return None if value is None else RefType(value)
        return a if not isinstance(a, TypeVar) and type(a) is type(b) and structural_equal(a, b) else None

    def unify_all(self, a: Sequence[Type], b: Sequence[Type], join: bool = False) -> tuple[Type, ...] | None:
        """`unify` of each pair; None when their numbers differ or one pair excludes each other."""
        if len(a) != len(b):
            return None
        found = [both for x, y in zip(a, b, strict=True) if (both := self.unify(x, y, join)) is not None]
        return tuple(found) if len(found) == len(a) else None

    def unify_functions(self, a: FuncType, b: FuncType, join: bool) -> Type | None:
        if len(a.type_params) != len(b.type_params):
            return None
        if a.type_params:
            b = substitute_types(
                FuncType(b.arg_types, b.ret_type), dict(zip(b.type_params, a.type_params, strict=True))
            )
        args = self.unify_all(a.arg_types, b.arg_types, join)
        ret = self.unify(a.ret_type, b.ret_type, join)
        return None if ret is None or args is None else FuncType(args, ret, a.type_params)

    def bind(self, hole: IncompleteType, t: Type) -> Type | None:
        if any([h is hole for h in self.holes(t)]):
            return None
        if hole in self.wide:
            t = self.widened(t)
        self.solutions[hole] = t
        self._resolved.clear()
        if self.solved is not None:
            self.solved(hole)
        return t

    def widened(self, t: Type) -> Type:
        """The type of values like those of `t` whose dimensions that are no numbers may be others, each for itself."""
        t = self.prune(t)
        if type(t) is IncompleteType:
            self.wide.add(t)
            return t
        if isinstance(t, TensorType):
            shape = [d if isinstance(d, (IntImm, AnyDim)) else AnyDim() for d in t.shape]
            same = all([a is b for a, b in zip(shape, t.shape, strict=True)])
            return t if same else TensorType(tuple(shape), t.dtype)
        return map_parts(t, self.widened)


def unify_tensors(a: TensorType, b: TensorType, join: bool) -> TensorType | None:
    if a.dtype != b.dtype or len(a.shape) != len(b.shape):
        return None
    pairs = list(zip(dims(a), dims(b), strict=True))
    if not join and not all([may_equal(x, y) for x, y in pairs]):
        return None
    merged = [join_dim(x, y) if join else merge_dim(x, y) for x, y in pairs]
    return a.replace(shape=tuple(merged))


def join_dim(a: Dim, b: Dim) -> Dim:
    """A dimension that may be `a` or `b`: nothing is known of it unless they are surely equal."""
    return a if known_equal(a, b) else (a if is_any(a) else AnyDim())
