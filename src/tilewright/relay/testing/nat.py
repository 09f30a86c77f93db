"""Natural numbers as data (the prelude's type nat), from and to Python's."""

from __future__ import annotations

from typing import Any

from tilewright.ir import IRModule
from tilewright.relay.evaluation.interpreter import ConstructorValue
from tilewright.relay.expr import Call, Expr
from tilewright.relay.prelude.standard_library import Prelude


def count(prelude: Prelude, n: Any) -> int:
    """The number that a value of type nat stands for, from an executor or as an expression of constructors. TypeError for anything else."""
    _, zero, successor = prelude.mod.get_type("nat")
    found = 0
    while True:
        constructor, fields = (
            (n.op, n.args) if isinstance(n, Call) else (getattr(n, "constructor", None), getattr(n, "fields", ()))
        )
        name = getattr(constructor, "name_hint", None)
        if name == zero.name_hint:
            return found
        if name != successor.name_hint:
            raise TypeError(f"count takes a value of type nat, but was given {n!r}")
        found, n = found + 1, fields[0]


def add_nat_definitions(prelude: Prelude) -> None:
    """Brings nat, its functions nat_double, nat_add and nat_iterate into the prelude's module. (Older documentation calls this
    `prelude.mod.import_from_std("nat.rly")`.)"""
    if not _has_nat(prelude.mod):
        prelude.mod.import_from_std("nat.rly")


def _has_nat(mod: IRModule) -> bool:
    return any([g.name_hint == "nat" for g in mod.type_definitions])


def make_nat_value(prelude: Prelude, n: int) -> ConstructorValue:
    """A number of type nat as a value of the interpreter."""
    _, zero, successor = prelude.mod.get_type("nat")
    value = ConstructorValue(zero.tag, [], zero)
    for _ in range(_natural(n)):
        value = ConstructorValue(successor.tag, [value], successor)
    return value


def make_nat_expr(prelude: Prelude, n: int) -> Expr:
    """A number of type nat as an expression."""
    _, zero, successor = prelude.mod.get_type("nat")
    found: Expr = zero()
    for _ in range(_natural(n)):
        found = successor(found)
    return found


def _natural(n: int) -> int:
    if n < 0:
        raise ValueError(f"{n} is not a natural number")
    return n
