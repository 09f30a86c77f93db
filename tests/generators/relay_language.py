"""Random well-typed relay programs: operators, tuples, lets, branches, closures, recursion, lists, references, dynamic dimensions.

Each expression is drawn for a type that is wanted, from what is in scope, so what is drawn is well typed by construction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tilewright import relay
from tilewright.relay import Clause, Expr, PatternConstructor, PatternVar, PatternWildcard, Var

HEADER = """
type List[A] { Cons(A, List[A]), Nil, }
def @map[A, B](%f: fn (A) -> B, %l: List[A]) -> List[B] {
  match (%l) { Cons(%h, %t) => Cons(%f(%h), @map(%f, %t)), Nil => Nil() }
}
def @fold[A, B](%f: fn (B, A) -> B, %b: B, %l: List[A]) -> B {
  match (%l) { Cons(%h, %t) => @fold(%f, %f(%b, %h), %t), Nil => %b }
}
def @main(%x: Tensor[(3), float32]) { %x }
"""


class T(NamedTuple):
    """The type of a tensor; an axis None has a size that only a run knows."""

    dtype: str
    shape: tuple[int | None, ...] = ()

    @property
    def relay(self) -> relay.TensorType:
        return relay.TensorType(tuple([relay.Any() if d is None else d for d in self.shape]), self.dtype)


class Pair(NamedTuple):
    """The type of a tuple."""

    fields: tuple[Kind, ...]


Kind = T | Pair
FLOATS = tuple([T("float32", s) for s in ((), (3,), (1, 3), (2, 3), (3, 3))])
ROWS = T("float32", (None, 3))
INTS = tuple([T("int32", s) for s in ((), (2,), (3,), (2, 3))])
BOOLS = tuple([T("bool", s) for s in ((), (3,), (2, 3))])
INDEX, FLAG = INTS[0], BOOLS[0]
PARAMETERS = {"x": FLOATS[1], "y": FLOATS[3], "z": FLOATS[4], "n": INDEX, "k": INTS[3], "b": FLAG, "s": ROWS}
UNARY = ("tanh", "sigmoid", "negative", "abs", "nn.relu", "erf", "cos", "atan")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum")
WHOLE = (
    "add",
    "subtract",
    "multiply",
    "maximum",
    "minimum",
    "divide",
    "floor_divide",
    "mod",
    "floor_mod",
    "bitwise_xor",
)
COMPARISONS = ("less", "greater_equal", "equal", "not_equal")
LIMIT = 60
"""The most expressions that a program is drawn with; past it only leaves are."""


def relay_type(t: Kind) -> Any:
    """The type as relay has it."""
    return t.relay if isinstance(t, T) else relay.TupleType(tuple([relay_type(f) for f in t.fields]))


def call(name: str, *args: Any, **attrs: Any) -> Expr:
    """A call of the operator's constructor."""
    made: Any = relay
    for part in name.split("."):
        made = getattr(made, part)
    return made(*args, **attrs)  # type: ignore[no-any-return]


class Program:
    """One random program. flat: of nothing but operators, tuples and sizes that are known, for executors of graphs."""

    def __init__(self, seed: int, flat: bool) -> None:
        self.rng = np.random.default_rng(seed)
        self.flat, self.names, self.drawn = flat, 0, 0
        self.mod = relay.parse(HEADER)
        self.list = self.mod.get_global_type_var("List")
        self.cons, self.nil = self.mod[self.list].constructors
        self.params = {n: relay.var(n, relay_type(t)) for n, t in PARAMETERS.items() if not (flat and n == "s")}
        # Values in scope, of which each scope's list is its own.
        self.scope: list[tuple[Expr, Kind]] = [(v, PARAMETERS[n]) for n, v in self.params.items()]
        depth = int(self.rng.integers(2, 5))
        results = [self.of(self.some_kind(), depth) for _ in range(int(self.rng.integers(1, 4)))]
        body = results[0] if len(results) == 1 else relay.Tuple(results)
        self.mod["main"] = relay.Function([*self.params.values()], body)

    def inputs(self) -> list[np.ndarray]:
        """Values of the parameters."""
        made = []
        for name in self.params:
            t = PARAMETERS[name]
            shape = [int(self.rng.integers(1, 5)) if d is None else d for d in t.shape]
            made.append(self.array(t.dtype, shape))
        return made

    # --- choices

    def array(self, dtype: str, shape: Any) -> np.ndarray:
        if dtype == "int32":
            return self.rng.integers(-5, 6, shape).astype("int32")
        if dtype == "bool":
            return np.asarray(self.rng.random(shape) < 0.5)
        return np.asarray(self.rng.uniform(-2, 2, shape), "float32")

    def one(self, options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def likely(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def some_tensor(self) -> T:
        pools: list[Any] = [FLOATS, FLOATS, INTS, BOOLS] + ([] if self.flat else [(ROWS,)])
        found: T = self.one(self.one(pools))
        return found

    def some_kind(self) -> Kind:
        if self.likely(0.15):
            return Pair(tuple([self.some_tensor() for _ in range(int(self.rng.integers(1, 3)))]))
        return self.some_tensor()

    # --- expressions

    def of(self, t: Kind, depth: int) -> Expr:
        """An expression of a type; it may be one that is there already."""
        known = [e for e, kind in self.scope if kind == t]
        if known and (depth <= 0 or self.drawn > LIMIT or self.likely(0.2)):
            return self.one(known)  # type: ignore[no-any-return]
        self.drawn += 1
        if isinstance(t, Pair):
            made: Expr = relay.Tuple([self.of(f, depth - 1) for f in t.fields])
        elif depth <= 0 or self.drawn > LIMIT:
            return self.leaf(t)
        elif not self.flat and self.likely(0.35):
            made = self.one(self.control)(self, t, depth)
        else:
            made = self.one(self.operators(t))(depth - 1)
        self.scope.append((made, t))
        return made

    def leaf(self, t: T) -> Expr:
        if None in t.shape:
            # Sizes that a run knows come from the parameter that has one.
            return self.params["s"]
        return relay.const(self.array(t.dtype, t.shape), t.dtype)

    def within(self, variables: list[tuple[Var, Kind]], make: Callable[[], Expr]) -> Expr:
        """What is made in a scope of its own, with these variables."""
        outer = self.scope
        self.scope = [*outer, *variables]
        try:
            return make()
        finally:
            self.scope = outer

    def fits(self, t: T) -> T:
        """A type that broadcasts to `t`; two values of dynamic dimensions may have different ones."""
        wider = {(2, 3): ((), (3,), (1, 3), (2, 3)), (3, 3): ((), (3,), (1, 3), (3, 3)), (None, 3): ((), (3,), (1, 3))}
        shapes = [s for s in wider.get(t.shape, ((), t.shape)) if any([k.shape == s for k in self.pool(t.dtype)])]
        return T(t.dtype, self.one(shapes))

    @staticmethod
    def pool(dtype: str) -> tuple[T, ...]:
        return {"float32": (*FLOATS, ROWS), "int32": INTS, "bool": BOOLS}[dtype]

    def operators(self, t: T) -> list[Callable[[int], Expr]]:
        """What makes a tensor of this type by an operator."""
        both = {"float32": BINARY, "int32": WHOLE, "bool": ("logical_and", "logical_or", "logical_xor")}[t.dtype]
        ways: list[Callable[[int], Expr]] = [
            lambda d: call(self.one(both), *self.shuffled(self.of(t, d), self.of(self.fits(t), d)))
        ]
        mask = T("bool", t.shape)
        if mask in BOOLS:
            ways.append(lambda d: relay.where(self.of(mask, d), self.of(t, d), self.of(t, d)))
        if t.dtype == "float32":
            ways += [lambda d: call(self.one(UNARY), self.of(t, d))] * 2
        if t.dtype == "bool":
            of = T("int32", t.shape)
            ways += [
                lambda d: call(self.one(COMPARISONS), self.of(of, d), self.of(of, d)),
                lambda d: relay.logical_not(self.of(t, d)),
            ]
        elif T("bool", t.shape) in BOOLS:
            ways.append(lambda d: relay.cast(self.of(T("bool", t.shape), d), t.dtype))
        if t.dtype != "bool":
            ways += self.moves(t)
        return ways

    def moves(self, t: T) -> list[Callable[[int], Expr]]:
        """What makes a tensor of numbers from others of its type."""

        def at(shape: tuple[int | None, ...]) -> T:
            return T(t.dtype, shape)

        indices = {(): INTS[0], (2,): INTS[1], (3,): INTS[2], (2, 3): INTS[3]}
        whole = self.pool(t.dtype)
        ways: list[Callable[[int], Expr]] = []
        if t.shape == ():
            of = [k for k in whole if k.shape]
            ways += [
                lambda d: call(
                    self.one(("sum", "max", "min")), self.of(self.one([k for k in of if None not in k.shape]), d)
                ),
                lambda d: self.taken(at((3,)), INDEX, d),
            ]
        if t.shape == (3,):
            ways += [
                lambda d: call(self.one(("sum", "max", "min")), self.of(at((2, 3)), d), axis=0),
                lambda d: self.taken(at((2, 3)), INDEX, d),
                lambda d: relay.gather(self.of(t, d), 0, self.of(indices[3,], d)),
                lambda d: self.scattered(t, d),
                lambda d: relay.reverse(self.of(t, d), 0),
            ]
            if t.dtype == "float32":
                ways += [
                    lambda d: relay.mean(self.of(ROWS, d) if not self.flat else self.of(at((2, 3)), d), axis=0),
                    lambda d: relay.nn.softmax(self.of(t, d)),
                    lambda d: relay.reshape(self.of(at((1, 3)), d), (3,)),
                ]
        if t.shape == (2, 3):
            ways += [
                lambda d: relay.gather(
                    self.of(t, d), int(self.rng.integers(2)), relay.clip(self.of(indices[2, 3], d), -9, 9)
                ),
                lambda d: relay.gather_nd(
                    self.of(t, d), relay.stack([self.of(indices[2, 3], d), self.of(indices[2, 3], d)], axis=0)
                ),
                lambda d: relay.stack([self.of(at((3,)), d), self.of(at((3,)), d)], axis=0),
            ]
            if t.dtype == "float32":
                ways += [
                    lambda d: relay.nn.dense(self.of(t, d), self.of(at((3, 3)), d)),
                    lambda d: relay.strided_slice(self.of(at((3, 3)), d), [0], [2]),
                    lambda d: self.taken(at((3, 3)), INTS[1], d),
                ]
        if t.shape == (2,):
            ways.append(lambda d: call(self.one(("sum", "max")), self.of(at((2, 3)), d), axis=1))
        if t.shape == (1, 3):
            ways += [
                lambda d: relay.expand_dims(self.of(at((3,)), d), 0),
                lambda d: relay.sum(self.of(at((2, 3)), d), axis=0, keepdims=True),
            ]
        if t.shape == (3, 3):
            ways += [
                lambda d: relay.transpose(self.of(t, d)),
                lambda d: relay.concatenate([self.of(at((2, 3)), d), self.of(at((1, 3)), d)], axis=0),
                lambda d: relay.nn.softmax(self.of(t, d), axis=0),
            ]
        if t.shape == (None, 3):
            ways += [
                lambda d: relay.concatenate([self.of(t, d), self.of(self.one((t, at((2, 3)), at((1, 3)))), d)], axis=0),
                lambda d: relay.nn.dense(self.of(t, d), self.of(at((3, 3)), d)),
                lambda d: relay.nn.softmax(self.of(t, d)),
            ]
        return ways

    def taken(self, source: T, index: T, d: int) -> Expr:
        """Elements or rows at indices that may lie outside, which every mode defines."""
        return relay.take(
            self.of(source, d), self.of(index, d), axis=0, mode=self.one(("clip", "wrap", "signed", "bounded"))
        )

    def scattered(self, t: T, d: int) -> Expr:
        """A vector of three with two elements put at places that may lie outside."""
        updates = relay.strided_slice(self.of(t, d), [0], [2])
        return relay.scatter_elements(
            self.of(t, d), self.of(INTS[1], d), updates, 0, self.one(("update", "add", "max"))
        )

    def shuffled(self, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        return (a, b) if self.likely(0.5) else (b, a)

    # --- what only a language has

    def branch(self, t: T, depth: int) -> Expr:
        cond = self.of(FLAG, depth - 1)
        arms = [self.within([], lambda: self.of(t, depth - 1)) for _ in range(2)]
        return relay.If(cond, *arms)

    def binding(self, t: T, depth: int) -> Expr:
        kind = self.some_kind()
        v = relay.var(self.name("v"), relay_type(kind) if self.likely(0.5) else None)
        value = self.of(kind, depth - 1)
        return relay.Let(v, value, self.within([(v, kind)], lambda: self.of(t, depth - 1)))

    def function(self, kinds: list[Kind], result: Kind, depth: int) -> Expr:
        """A closure over what is in scope."""
        params = [relay.var(self.name("p"), relay_type(k)) for k in kinds]
        body = self.within(list(zip(params, kinds, strict=True)), lambda: self.of(result, depth))
        return relay.Function(params, body, relay_type(result) if self.likely(0.5) else None)

    def closure(self, t: T, depth: int) -> Expr:
        kinds = [self.some_kind() for _ in range(int(self.rng.integers(1, 3)))]
        value = self.function(kinds, t, depth - 2)
        if self.likely(0.3):
            value = relay.If(self.of(FLAG, depth - 2), value, self.function(kinds, t, depth - 2))
        f = relay.var(self.name("f"))
        use = relay.Call(f, [self.of(k, depth - 2) for k in kinds])
        if self.likely(0.3) and t in kinds:
            use = relay.Call(f, [use if k == t else self.of(k, depth - 2) for k in kinds])
        return relay.Let(f, value, use)

    def loop(self, t: T, depth: int) -> Expr:
        """A local function that calls itself a few times."""
        f, k, a = (
            relay.var(self.name("f")),
            relay.var(self.name("k"), relay_type(INDEX)),
            relay.var(self.name("a"), relay_type(t)),
        )
        step = self.within([(k, INDEX), (a, t)], lambda: self.of(t, depth - 2))
        one, none = relay.const(1, "int32"), relay.const(0, "int32")
        body = relay.If(relay.less_equal(k, none), a, relay.Call(f, [relay.subtract(k, one), step]))
        func = relay.Function([k, a], body, relay_type(t))
        trips = relay.const(int(self.rng.integers(0, 4)), "int32")
        return relay.Let(f, func, relay.Call(f, [trips, self.of(t, depth - 2)]))

    def elements(self, kind: Kind, depth: int) -> Expr:
        """A list."""
        made: Expr = relay.Call(self.nil, [])
        for _ in range(int(self.rng.integers(0, 4))):
            made = relay.Call(self.cons, [self.of(kind, depth), made])
        if self.likely(0.3):
            made = relay.Call(self.mod.get_global_var("map"), [self.function([kind], kind, depth), made])
        return made

    def matching(self, t: T, depth: int) -> Expr:
        kind = self.some_kind()
        head = relay.var(self.name("h"))
        data = self.elements(kind, depth - 2)
        hit = self.within([(head, kind)], lambda: self.of(t, depth - 2))
        miss = self.within([], lambda: self.of(t, depth - 2))
        tail = PatternWildcard() if self.likely(0.5) else PatternVar(relay.var(self.name("t")))
        # Nothing tells the type of an empty list but what it is matched with.
        bound = relay.var(self.name("l"), relay.TypeCall(self.list, [relay_type(kind)]))
        clauses = [
            Clause(PatternConstructor(self.cons, [PatternVar(head), tail]), hit),
            Clause(PatternConstructor(self.nil, []), miss),
        ]
        return relay.Let(bound, data, relay.Match(bound, clauses))

    def folding(self, t: T, depth: int) -> Expr:
        kind = self.some_kind()
        bound = relay.var(self.name("l"), relay.TypeCall(self.list, [relay_type(kind)]))
        step = self.function([t, kind], t, depth - 2)
        fold = relay.Call(self.mod.get_global_var("fold"), [step, self.of(t, depth - 2), bound])
        return relay.Let(bound, self.elements(kind, depth - 2), fold)

    def reference(self, t: T, depth: int) -> Expr:
        r, before, after = relay.var(self.name("r")), relay.var(self.name("v")), relay.var(self.name("v"))
        first = self.of(t, depth - 2)
        second = self.within([(before, t)], lambda: self.of(t, depth - 2))
        body = self.within([(before, t), (after, t)], lambda: self.of(t, depth - 2))
        done = relay.Let(relay.var(self.name("u")), relay.RefWrite(r, second), relay.Let(after, relay.RefRead(r), body))
        return relay.Let(r, relay.RefCreate(first), relay.Let(before, relay.RefRead(r), done))

    def item(self, t: T, depth: int) -> Expr:
        fields: list[Kind] = [self.some_tensor() for _ in range(int(self.rng.integers(0, 3)))]
        at = int(self.rng.integers(len(fields) + 1))
        fields.insert(at, t)
        whole = Pair(tuple(fields))
        value = self.branch(whole, depth) if self.likely(0.3) else self.of(whole, depth - 1)  # type: ignore[arg-type]
        return relay.TupleGetItem(value, at)

    control = (branch, binding, closure, loop, matching, folding, reference, item)
