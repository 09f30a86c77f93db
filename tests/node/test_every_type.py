"""Every registered node type, on random instances: equality, hash, paths of differences, JSON, rebuild, printing."""

from __future__ import annotations

import ast
import sys
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tilewright.relay
import tilewright.te
import tilewright.tir  # noqa: F401
from tilewright.node import (
    Mutator,
    Node,
    first_mismatch,
    load_json,
    node_types,
    on,
    post_order_visit,
    save_json,
    structural_equal,
    structural_hash,
)
from tilewright.node.base import DEF, SKIP
from tilewright.tir import PrimExpr, PrimFunc, Stmt

sys.path.insert(0, str(Path(__file__).parent))
from tests.node.generate import REFUSALS, Generator, NoInstance, clone

ROUNDS = 6
KEYS = sorted(node_types())
# One object per name or value: a copy is the original.
INTERNED = {"Op", "SourceName"}


@cache
def instances(key: str) -> list[Node]:
    seed = zlib.crc32(key.encode())
    return [Generator(seed + i).instance(node_types()[key]) for i in range(ROUNDS)]


class ChangesNothing(Mutator):
    """The default handlers."""


class RebuildsAll(Mutator):
    """Rebuilds every node explicitly."""

    @on(Node)
    def _node(self, x: Node) -> Any:
        return x if x._leaf else self.rebuild(x)


@pytest.mark.parametrize("key", KEYS)
def test_copy_is_equal_and_has_the_same_hash(key: str) -> None:
    for x in instances(key):
        y = clone(x)
        assert first_mismatch(x, y, map_free_vars=True) is None
        assert structural_hash(x, map_free_vars=True) == structural_hash(y, map_free_vars=True)
        assert structural_equal(x, x) and structural_hash(x) == structural_hash(x)


@pytest.mark.parametrize("key", KEYS)
def test_json_round_trip(key: str) -> None:
    for x in instances(key):
        y = load_json(save_json(x))
        assert type(y) is type(x)
        assert first_mismatch(x, y, map_free_vars=True) is None
        assert structural_hash(x, map_free_vars=True) == structural_hash(y, map_free_vars=True)
        assert save_json(load_json(save_json(y))) == save_json(y)


@pytest.mark.parametrize("key", KEYS)
def test_difference_in_one_field_is_found_there(key: str) -> None:
    cls = node_types()[key]
    free = cls._identity == "variable"
    changed = 0
    for i, x in enumerate(instances(key)):
        generator = Generator(i)
        for f in cls._fields:
            if f.kind == SKIP or f.name in cls._cosmetic:
                continue
            other = _with_other_value(generator, x, f.name, f.annotation, free)
            if other is None or other is x:
                continue
            changed += 1
            mismatch = first_mismatch(x, other, map_free_vars=free)
            if f.kind == DEF:
                # Another bound variable of the same type is no difference, or one where it is used.
                assert mismatch is None or mismatch.startswith(".")
            else:
                assert mismatch is not None and mismatch.startswith(f".{f.name}"), (f.name, mismatch)
                # Two free variables of one name differ, but only as objects, which a hash cannot show.
                if first_mismatch(x, other, map_free_vars=True) is not None:
                    assert structural_hash(x, map_free_vars=True) != structural_hash(other, map_free_vars=True)
    if key not in INTERNED and [f for f in cls._fields if f.kind != SKIP and f.name not in cls._cosmetic]:
        assert changed


def _with_other_value(generator: Generator, x: Node, name: str, annotation: str, free: bool) -> Node | None:
    """The instance with one field changed; None when no other value fits there."""
    old = getattr(x, name)
    for _ in range(60):
        try:
            new = generator.value(annotation, 1)
            made = x.replace(**{name: new})
        except (*REFUSALS, NoInstance):
            continue
        if first_mismatch(old, getattr(made, name), map_free_vars=free) is not None:
            return made
    return None


@pytest.mark.parametrize("key", KEYS)
def test_mutators_that_change_nothing_return_the_same_object(key: str) -> None:
    for x in instances(key):
        assert ChangesNothing().visit(x) is x
        assert RebuildsAll().visit(x) is x
        assert x.replace(**{f.name: getattr(x, f.name) for f in x._fields}) is x
        seen: list[Node] = []
        post_order_visit(x, seen.append)
        assert seen[-1] is x and len({id(n) for n in seen}) == len(seen)


@pytest.mark.parametrize("key", KEYS)
def test_every_node_prints(key: str) -> None:
    for x in instances(key):
        assert isinstance(repr(x), str)
        text = x.script()
        if isinstance(x, (Stmt, PrimFunc, PrimExpr)):
            # TVMScript is Python, whatever the names and strings in it.
            ast.parse(text)
