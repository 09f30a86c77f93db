"""PartialEvaluate and continuation-passing style: the same results, and the forms that are left."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.random_graphs import Generator, assert_same, evaluate
from tilewright import relay
from tilewright.ir import IRModule
from tilewright.ir.instrument import PassVerifier
from tilewright.ir.transform import PassContext, Sequential
from tilewright.node import assert_structural_equal
from tilewright.relay import transform
from tilewright.relay.analysis import list_op_freqs, post_order, well_formed
from tilewright.relay.transform import to_cps, un_cps
from tilewright.support.errors import TVMError

HEAD = '#[version = "0.0.5"]\n'
LIST = "type List[A] { Cons(A, List[A]), Nil }\n"
S = "Tensor[(), float32]"
V = "Tensor[(4,), float32]"

PROGRAMS: dict[str, tuple[str, list[np.ndarray]]] = {
    "arithmetic": (f"def @main(%x: {V}) {{ let %a = add(2f, 3f); multiply(%x, %a) }}", [np.arange(4, dtype="float32")]),
    "tuples": (
        f"def @main(%x: {V}) {{ let %t = (%x, 1f); let %u = (%t.1, %t); add(%u.0, %u.1.0) }}",
        [np.arange(4, dtype="float32")],
    ),
    "closures": (
        f"def @main(%x: {V}) {{ let %twice = fn (%f: fn ({V}) -> {V}, %y: {V}) {{ %f(%f(%y)) }};"
        f" let %c = 3f; %twice(fn (%z: {V}) {{ multiply(%z, %c) }}, %x) }}",
        [np.arange(4, dtype="float32")],
    ),
    "known if": (f"def @main(%x: {S}) {{ if (less(1f, 2f)) {{ tanh(%x) }} else {{ exp(%x) }} }}", [np.float32(0.5)]),
    "if": (
        f"def @main(%x: {S}) {{ let %y = if (less(%x, 2f)) {{ tanh(%x) }} else {{ exp(%x) }}; add(%y, %y) }}",
        [np.float32(0.5)],
    ),
    "references": (
        f"def @main(%x: {S}) {{ let %r = ref(%x); let %a = ref_write(%r, add(ref_read(%r), 1f)); let %s = ref(2f);"
        " let %b = ref_write(%s, 3f); multiply(ref_read(%r), ref_read(%s)) }",
        [np.float32(0.5)],
    ),
    "references in branches": (
        f"def @main(%x: {S}) {{ let %r = ref(1f); let %a = if (less(%x, 2f)) {{ ref_write(%r, %x) }} else {{ () }};"
        " add(ref_read(%r), %x) }",
        [np.float32(0.5)],
    ),
    "a known loop": (
        f"def @pow(%x: {S}, %n: int32) -> {S} {{ if (equal(%n, 0)) {{ 1f }} else {{ multiply(%x, @pow(%x, subtract(%n, 1))) }} }}\n"
        f"def @main(%x: {S}) {{ @pow(%x, 5) }}",
        [np.float32(1.5)],
    ),
    "an open loop": (
        f"def @pow(%x: {S}, %n: int32) -> {S} {{ if (equal(%n, 0)) {{ 1f }} else {{ multiply(%x, @pow(%x, subtract(%n, 1))) }} }}\n"
        f"def @main(%x: {S}, %n: int32) {{ @pow(%x, %n) }}",
        [np.float32(1.5), np.int32(6)],
    ),
    "a local loop": (
        f"def @main(%x: {S}, %n: int32) {{ let %f = fn (%i: int32, %y: {S}) -> {S} {{ if (equal(%i, 0)) {{ %y }} else"
        " { %f(subtract(%i, 1), add(%y, %x)) } }; add(%f(%n, %x), %f(2, %x)) }",
        [np.float32(1.5), np.int32(6)],
    ),
    "a known list": (
        LIST + f"def @sum(%l: List[{S}]) -> {S} {{ match (%l) {{ Cons(%h, %t) => add(%h, @sum(%t)), Nil => 0f }} }}\n"
        f"def @main(%x: {S}, %y: {S}) {{ @sum(Cons(%x, Cons(%y, Cons(2f, Nil())))) }}",
        [np.float32(1.5), np.float32(2.5)],
    ),
    "an open list": (
        LIST + f"def @make(%n: int32, %x: {S}) -> List[{S}] {{ if (equal(%n, 0)) {{ Nil() }} else"
        " { Cons(%x, @make(subtract(%n, 1), add(%x, 1f))) } }\n"
        f"def @sum(%l: List[{S}]) -> {S} {{ match (%l) {{ Cons(%h, %t) => add(%h, @sum(%t)), Nil => 0f }} }}\n"
        f"def @main(%x: {S}, %n: int32) {{ @sum(Cons(5f, @make(%n, %x))) }}",
        [np.float32(1.5), np.int32(3)],
    ),
    "polymorphic map": (
        LIST + "def @map[A, B](%f: fn (A) -> B, %l: List[A]) -> List[B]"
        " { match (%l) { Cons(%h, %t) => Cons(%f(%h), @map(%f, %t)), Nil => Nil() } }\n"
        f"def @sum(%l: List[{S}]) -> {S} {{ match (%l) {{ Cons(%h, %t) => add(%h, @sum(%t)), Nil => 0f }} }}\n"
        f"def @main(%x: {S}) {{ @sum(@map(fn (%y: {S}) {{ multiply(%y, %x) }}, Cons(%x, Cons(2f, Nil())))) }}",
        [np.float32(1.5)],
    ),
}


def program(name: str) -> tuple[IRModule, list[np.ndarray]]:
    text, inputs = PROGRAMS[name]
    mod = relay.fromtext(HEAD + text)
    assert isinstance(mod, IRModule)
    return mod, [np.asarray(x) for x in inputs]


@pytest.mark.parametrize("name", PROGRAMS)
def test_partial_evaluation_keeps_results(name: str) -> None:
    mod, inputs = program(name)
    with PassContext(instruments=[PassVerifier()]):
        after = transform.PartialEvaluate()(mod)
        clean = transform.DeadCodeElimination()(after)
    for m in (after, clean):
        assert_same(evaluate(m, inputs), evaluate(mod, inputs))


@pytest.mark.parametrize("seed", range(500, 506))
def test_graphs_keep_their_values(seed: int) -> None:
    g = Generator(seed, 12)
    mod, inputs = g.module(), g.inputs()
    with PassContext(instruments=[PassVerifier()]):
        after = Sequential(
            [transform.PartialEvaluate(), transform.DeadCodeElimination(), transform.ToGraphNormalForm()]
        )(mod)
    assert_same(evaluate(after, inputs), evaluate(mod, inputs))


def left(name: str) -> IRModule:
    """What is left of a program, without what is not needed any more."""
    mod, _ = program(name)
    return Sequential(
        [transform.PartialEvaluate(), transform.DeadCodeElimination(), transform.RemoveUnusedFunctions()]
    )(mod)


def kinds(mod: IRModule) -> set[str]:
    return {type(e).__name__ for e in post_order(mod["main"].body)}


def test_what_is_known_is_done() -> None:
    assert list_op_freqs(left("arithmetic")) == {"multiply": 1}
    assert list_op_freqs(left("closures")) == {"multiply": 2}
    assert kinds(left("closures")) == {"Var", "Constant", "Call", "Let"}
    assert list_op_freqs(left("known if")) == {"tanh": 1}
    assert "TupleGetItem" not in kinds(left("tuples"))


def test_known_recursion_ends() -> None:
    after = left("a known loop")
    assert [g.name_hint for g in after.functions] == ["main"]
    assert list_op_freqs(after) == {"multiply": 5}
    listed = left("a known list")
    assert [g.name_hint for g in listed.functions] == ["main"]
    assert kinds(listed) <= {"Var", "Constant", "Call", "Let"} and list_op_freqs(listed) == {"add": 2}


def test_open_recursion_stays() -> None:
    assert {g.name_hint for g in left("an open loop").functions} == {"main", "pow"}
    assert "Function" in kinds(left("a local loop"))


def test_reads_of_known_references_go() -> None:
    assert "RefRead" not in kinds(left("references"))
    assert "RefRead" in kinds(left("references in branches"))


def test_functions_without_end_are_not_unfolded_for_ever() -> None:
    mod = relay.fromtext(
        HEAD + f"def @f(%x: {S}, %n: int32) -> {S} {{ @f(%x, add(%n, 1)) }}\ndef @main(%x: {S}) {{ @f(%x, 0) }}"
    )
    assert isinstance(mod, IRModule)
    after = transform.PartialEvaluate()(mod)
    assert well_formed(after)


@pytest.mark.parametrize("name", PROGRAMS)
def test_continuations_and_back(name: str) -> None:
    mod, inputs = program(name)
    want = evaluate(mod, inputs)
    mod = transform.InferType()(mod)
    converted = to_cps(mod["main"], mod)
    assert len(converted.params) == len(mod["main"].params) + 1
    mod["main"] = un_cps(converted)
    assert well_formed(mod, report=True)
    assert_structural_equal(relay.parse(mod.astext()), transform.InferType()(mod))
    assert_same(evaluate(transform.InferType()(mod), inputs), want)
    for func in mod.functions.values():
        # No call of a function waits for its result.
        waiting = [e for e in post_order(func) if isinstance(e, relay.Let) and _calls_function(e.value)]
        assert not waiting


def _calls_function(e: Any) -> bool:
    return isinstance(e, relay.Call) and isinstance(e.op, (relay.Var, relay.GlobalVar))


def test_continuations_after_partial_evaluation_are_gone() -> None:
    mod, inputs = program("closures")
    want = evaluate(mod, inputs)
    mod = transform.InferType()(mod)
    mod["main"] = un_cps(to_cps(mod["main"], mod))
    after = Sequential([transform.PartialEvaluate(), transform.DeadCodeElimination()])(mod)
    assert_same(evaluate(after, inputs), want)
    assert "Function" not in kinds(after)


def test_functions_of_a_module_need_the_module() -> None:
    mod, _ = program("a known loop")
    with pytest.raises(TVMError, match="to_cps: @pow is called, but no module was given that has it"):
        to_cps(mod["main"])
