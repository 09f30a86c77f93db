"""Small rewrites, as programs before and after, and run on random scheduled programs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.generators.programs import random_program, random_schedule
from tests.tir_transform.thread.test_threads import module, nodes
from tilewright import tir
from tilewright.codegen.interp import run
from tilewright.driver import lower
from tilewright.node import assert_structural_equal, post_order_visit
from tilewright.support.errors import TVMError
from tilewright.testing import CompareBeforeAfter
from tilewright.tir import transform as T
from tilewright.tir.analysis import verify_ssa, verify_well_formed


def loop(*steps: Any) -> Any:
    """A loop over i of stores to A; each step is a function of (A, i)."""
    a, i = tir.decl_buffer((64,), "int32", "A"), tir.Var("i", "int32")
    return module(tir.For(i, 0, 8, 0, tir.stmt_seq(*[step(a, i) for step in steps])), a)


def store(a: Any, i: Any) -> Any:
    return tir.BufferStore(a, i, [i])


class TestAssumptionsGo(CompareBeforeAfter):
    transform = T.RemoveAssume()
    before = loop(lambda a, i: tir.Evaluate(tir.Call("bool", "assume", [i < 8])), store)
    expected = loop(store)


class TestUndefinedStoresGo(CompareBeforeAfter):
    transform = T.RemoveStoreUndef()
    before = loop(lambda a, i: tir.BufferStore(a, tir.Call("int32", "undef", []), [i + 8]), store)
    expected = loop(store)


class TestUndefinedValuesInExpressions(CompareBeforeAfter):
    transform = T.RemoveStoreUndef()
    before = loop(lambda a, i: tir.BufferStore(a, tir.Call("int32", "undef", []) + 1, [i]))
    expected = TVMError


class TestSplitPattern(CompareBeforeAfter):
    transform = T.RenormalizeSplitPattern()
    before = loop(lambda a, i: tir.BufferStore(a, tir.floordiv(tir.floormod(i, 6), 3), [i]))
    expected = loop(lambda a, i: tir.BufferStore(a, tir.floormod(tir.floordiv(i, 3), 2), [i]))


class TestSplitPatternThatDoesNotDivideStays(CompareBeforeAfter):
    transform = T.RenormalizeSplitPattern()
    before = loop(lambda a, i: tir.BufferStore(a, tir.floordiv(tir.floormod(i, 7), 3), [i]))
    expected = before


class TestRepeatedIndicesAreNamed(CompareBeforeAfter):
    transform = T.CommonSubexprElimTIR()

    def before(self) -> Any:
        return loop(lambda a, i: tir.BufferStore(a, a[i * 4 + 1] + (i * 4 + 1), [i * 4 + 2]))

    def expected(self) -> Any:
        def step(a: Any, i: Any) -> Any:
            x, y = tir.Var("x", "int32"), tir.Var("y", "int32")
            body = tir.BufferStore(a, a[y] + y, [x + 2])
            return tir.LetStmt(x, i * 4, tir.LetStmt(y, x + 1, body))

        return loop(step)


class TestNothingRepeats(CompareBeforeAfter):
    transform = T.CommonSubexprElimTIR()
    before = loop(store)
    expected = before


@pytest.mark.parametrize("seed", range(25))
def test_random_programs(seed: int) -> None:
    rng = random.Random(seed)
    program = random_program(rng)
    mod = lower(random_schedule(program.func, rng, rng.choice([0, 4, 8])))
    arrays = program.arrays(seed)
    run(mod, arrays)
    for make in (T.CommonSubexprElimTIR, T.RenormalizeSplitPattern):
        new = make()(mod)
        verify_well_formed(new)
        again = program.arrays(seed)
        run(new, again)
        for x, y in zip(arrays, again, strict=True):
            if isinstance(x, np.ndarray):
                np.testing.assert_array_equal(x.astype("float64"), y.astype("float64"))


def test_names_are_bound_once_and_can_be_switched_off() -> None:
    mod = loop(lambda a, i: tir.BufferStore(a, a[i * 4 + 1] + (i * 4 + 1), [i * 4 + 2]))
    new = T.CommonSubexprElimTIR()(mod)
    assert verify_ssa(new["main"]) and len(nodes(new, tir.LetStmt)) == 2
    assert T.CommonSubexprElimTIR(enable_cse_tir=False)(mod) is mod
    assert T.CommonSubexprElimTIR()(new) is new


def bound_in(func: Any) -> set[int]:
    """The identities of variables and buffers in a function."""
    found: set[int] = {id(p) for p in func.params}

    def note(n: Any) -> None:
        if isinstance(n, (tir.BufferLoad, tir.BufferStore)):
            found.update((id(n.buffer), id(n.buffer.data)))
        if isinstance(n, tir.Var):
            found.add(id(n))
        if isinstance(n, tir.For):
            found.add(id(n.loop_var))

    post_order_visit(func.body, note)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_renewed_functions_share_nothing(seed: int) -> None:
    rng = random.Random(seed)
    program = random_program(rng)
    for func in (random_schedule(program.func, rng, 6), lower(program.func)["main"]):
        new = tir.stmt_functor.renew_defs(func)
        assert_structural_equal(new, func)
        assert not bound_in(new) & bound_in(func)
        verify_well_formed(new)
