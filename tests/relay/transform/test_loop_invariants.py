"""HoistInvariants: what each round of a loop computes alike is computed once, in front of it; what differs, or draws numbers, stays."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright as tvm
from tilewright import relay
from tilewright.relay.functor import binders, post_order

VECTOR = relay.TensorType((8,), "float32")


def summed(row: Any, rounds: int = 5) -> relay.Function:
    """main(x): the sum of row(x, k) over rounds, as importers write a loop."""
    x = relay.var("x", VECTOR)
    k, total, loop = relay.var("k", shape=(), dtype="int32"), relay.var("total", VECTOR), relay.var("loop")
    again = loop(k + relay.const(1), total + row(x, k))
    step = relay.Function([k, total], relay.If(relay.less(k, relay.const(rounds)), again, total), VECTOR)
    start = relay.zeros((8,), "float32")
    return relay.Function([x], relay.Call(relay.Let(loop, step, loop), [relay.const(0), start]))


def within_loops(f: relay.Function, key: str) -> int:
    """How many calls of an operator stand in functions that are bound."""
    inner = [e.value for e in post_order(f) if isinstance(e, relay.Let) and isinstance(e.value, relay.Function)]
    return sum(isinstance(e, relay.Call) and e.op == relay.op.get(key) for g in inner for e in post_order(g.body))


def hoisted(f: relay.Function) -> relay.Function:
    return relay.transform.HoistInvariants()(tvm.IRModule.from_expr(f))["main"]


def stays(f: relay.Function) -> bool:
    return tvm.ir.structural_equal(hoisted(f), relay.transform.InferType()(tvm.IRModule.from_expr(f))["main"])


def run(f: relay.Function, x: np.ndarray) -> np.ndarray:
    machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(tvm.IRModule.from_expr(f), "llvm"), tvm.cpu())
    found: np.ndarray = machine.run(x).numpy()
    return found


def test_values_from_outside_are_computed_once() -> None:
    f = summed(
        lambda x, k: relay.take(
            relay.stack([relay.exp(x), x], 0), relay.less(k, relay.const(2)).astype("int32"), axis=0
        )
    )
    after = hoisted(f)
    assert (within_loops(f, "exp"), within_loops(f, "take")) == (1, 1)
    assert (within_loops(after, "exp"), within_loops(after, "stack"), within_loops(after, "take")) == (0, 0, 1)
    x = np.linspace(0, 1, 8).astype("float32")
    np.testing.assert_allclose(run(f, x), 2 * x + 3 * np.exp(x), rtol=1e-5)


def test_loops_in_front_of_loops_run_once() -> None:
    """The second loop reads the first one's result in each round."""
    first = summed(lambda y, k: relay.tanh(y * k.astype("float32")))
    f = summed(lambda y, k: relay.exp(relay.bind(first.body, {first.params[0]: y})) * k.astype("float32"))
    assert within_loops(f, "tanh") == 2, "the inner loop stands within the outer one"
    after = hoisted(f)
    assert within_loops(after, "tanh") == 1 and within_loops(after, "exp") == 0
    x = np.linspace(0, 1, 8).astype("float32")
    np.testing.assert_allclose(run(f, x), 10 * np.exp(sum(np.tanh(x * k) for k in range(5))), rtol=1e-4)


def test_what_a_round_changes_stays() -> None:
    f = summed(lambda x, k: relay.exp(x * k.astype("float32")))
    assert stays(f)


def test_branches_that_a_round_may_not_take_stay() -> None:
    """The condition differs from round to round: the side is not computed where no round asks for it."""
    f = summed(lambda x, k: relay.If(relay.less(k, relay.const(100)), x, relay.exp(x)))
    assert stays(f)


def test_weights_stay_for_constant_folding() -> None:
    weights = relay.const(np.ones(8, "float32"))
    f = summed(lambda x, k: relay.exp(weights) * k.astype("float32"))
    assert stays(f)


def test_what_a_reference_holds_is_read_in_each_round() -> None:
    x = relay.var("x", VECTOR)
    cell = relay.var("cell")
    f = summed(lambda y, k: relay.exp(relay.RefRead(cell)) * k.astype("float32"))
    whole = relay.Function([x], relay.Let(cell, relay.RefCreate(x), relay.bind(f.body, {f.params[0]: x})))
    assert stays(whole)


def test_sizes_that_a_loop_computes_with_stay_known_to_it() -> None:
    """Half of an extent is not an extent of what the loop reads; what it is half of stands in front of the loop."""
    x = relay.var("x", shape=(relay.Any(),), dtype="float32")
    half = relay.nn.max_pool1d(relay.reshape(relay.exp(x), newshape=(1, 1, -1)), pool_size=2, strides=2)
    k, total, loop = (
        relay.var("k", shape=(), dtype="int32"),
        relay.var("total", shape=(), dtype="float32"),
        relay.var("loop"),
    )
    again = loop(k + relay.const(1), total + relay.take(half, k))
    step = relay.Function(
        [k, total], relay.If(relay.less(k, relay.const(3)), again, total), relay.TensorType((), "float32")
    )
    f = relay.Function([x], relay.Call(relay.Let(loop, step, loop), [relay.const(0), relay.const(0.0)]))
    assert (within_loops(f, "exp"), within_loops(hoisted(f), "exp")) == (1, 0)
    x = np.linspace(0, 1, 9).astype("float32")
    np.testing.assert_allclose(run(f, x), np.exp(x[1:7:2]).sum(), rtol=1e-5)


def test_a_block_of_the_loop_that_is_used_outside_too_keeps_its_own_names() -> None:
    """Both forms of the block share what is computed of its variable, so they must not bind the same one."""
    mod = tvm.IRModule()
    p = relay.var("p", VECTOR)
    twice = relay.GlobalVar("twice")
    mod[twice] = relay.Function([p], p + p, VECTOR)
    x, inner = relay.var("x", VECTOR), relay.var("inner", VECTOR)
    block = relay.Let(inner, twice(relay.exp(x)), twice(inner))
    k, total, loop = relay.var("k", shape=(), dtype="int32"), relay.var("total", VECTOR), relay.var("loop")
    step = relay.Function(
        [k, total],
        relay.If(relay.less(k, relay.const(3)), loop(k + relay.const(1), total + block), total),
        VECTOR,
    )
    mod["main"] = relay.Function([x], relay.Call(relay.Let(loop, step, loop), [relay.const(0), block]))
    made = relay.transform.HoistInvariants()(mod)["main"]
    bound = [v for e in post_order(made) for v in binders(e)]
    assert len(bound) == len(set(bound)) > 4
    values = np.linspace(-1, 1, 8, dtype="float32")
    machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, "llvm"), tvm.cpu())
    np.testing.assert_allclose(machine.run(values).numpy(), 16 * np.exp(values), rtol=1e-5)


def test_a_loop_inside_of_such_a_block_keeps_its_own_parameters() -> None:
    """Its name is new in the copy, so that its function, which calls itself, is made anew: with parameters of its own, too."""
    mod = tvm.IRModule()
    p = relay.var("p", VECTOR)
    twice = relay.GlobalVar("twice")
    mod[twice] = relay.Function([p], p + p, VECTOR)
    x, inner, outer = relay.var("x", VECTOR), relay.var("inner"), relay.var("outer")

    def added_up(loop: relay.Var, value: relay.Expr, start: relay.Expr) -> relay.Expr:
        """Three times the value, added to the start."""
        k, total = relay.var("k", shape=(), dtype="int32"), relay.var("total", VECTOR)
        again = loop(k + relay.const(1), total + value)
        step = relay.Function([k, total], relay.If(relay.less(k, relay.const(3)), again, total), VECTOR)
        return relay.Let(loop, step, loop(relay.const(0), start))

    block = added_up(inner, twice(relay.exp(x)), x)
    mod["main"] = relay.Function([x], added_up(outer, block, block))
    made = relay.transform.HoistInvariants()(mod)["main"]
    bound = [v for e in post_order(made) for v in binders(e)]
    assert len(bound) == len(set(bound)) > 8
    values = np.linspace(-1, 1, 8, dtype="float32")
    machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, "llvm"), tvm.cpu())
    np.testing.assert_allclose(machine.run(values).numpy(), 4 * (6 * np.exp(values) + values), rtol=1e-5)
