"""Explicit memory: ManifestAlloc, MemoryPlan and ManifestLifetimes keep what a program computes, in the interpreter, which works in
the planned bytes, and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.relay.random_graphs import Generator
from tilewright import relay
from tilewright.relay.transform import ManifestAlloc, ManifestLifetimes, MemoryPlan
from tilewright.runtime.container import ADT

STEPS = (ManifestAlloc, MemoryPlan, ManifestLifetimes)


def flat(value: Any) -> list[np.ndarray]:
    if isinstance(value, (list, tuple, ADT)):
        return [x for v in value for x in flat(v)]
    return [value.numpy()]


def evaluate(mod: Any, *args: Any, kind: str = "debug") -> list[np.ndarray]:
    return flat(relay.create_executor(kind, mod).evaluate()(*args))


def stages(mod: Any) -> list[Any]:
    found = []
    for step in STEPS:
        mod = step()(mod)
        found.append(mod)
    return found


def found(mod: Any, name: str) -> list[Any]:
    calls: list[Any] = []
    for f in mod.functions.values():
        relay.analysis.post_order_visit(
            f, lambda e: calls.append(e) if isinstance(e, relay.Call) and getattr(e.op, "name", "") == name else None
        )
    return calls


def check(mod: Any, *args: Any, kinds: tuple[str, ...] = ("vm",)) -> list[Any]:
    want = evaluate(mod, *args)
    made = stages(mod)
    for m in made:
        tvm.ir.assert_structural_equal(relay.fromtext(m.astext()), m)
        for kind in ("debug", *(kinds if m is made[-1] else ())):
            for g, w in zip(evaluate(m, *args, kind=kind), want, strict=True):
                np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5)
    return made


def storages(mod: Any) -> list[int]:
    return [int(c.args[0].value) for c in found(mod, "memory.alloc_storage") if isinstance(c.args[0], relay.Constant)]


def test_a_chain_takes_turns_in_two_tensors() -> None:
    x = relay.var("x", shape=(16, 16))
    body: Any = x
    for _ in range(6):
        body = relay.sort(body)
    mod = relay.IRModule.from_expr(relay.Function([x], body))
    made = check(mod, np.random.default_rng(0).random((16, 16), dtype=np.float32), kinds=("vm", "graph"))
    assert storages(made[0]) == [1024] * 6 and storages(made[1]) == [2048]
    assert len(found(made[0], "vm.invoke_tvm_op")) == 6 and not found(made[0], "memory.kill")
    offsets = [int(c.args[1].value) for c in found(made[1], "memory.alloc_tensor")]
    assert offsets == [0, 1024, 0, 1024, 0, 1024]
    # Each storage's variable, each tensor, and each name of one but the result.
    assert len(found(made[2], "memory.kill")) == 1 + 6 + 5


def test_tuples_views_and_results_share_nothing_that_lives() -> None:
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
    a = relay.nn.softmax(relay.add(x, y))
    parts = relay.split(a, 3, axis=1)
    f = relay.Function(
        [x, y], relay.Tuple([relay.reshape(relay.sort(a), (6,)), parts[0], relay.cast(parts[2], "float64")])
    )
    made = check(relay.IRModule.from_expr(f), np.float32([[1, 5, 3], [2, 2, 9]]), np.ones((2, 3), "float32"))
    assert len(found(made[0], "vm.reshape_tensor")) == 1


@pytest.mark.parametrize("seed", range(4))
def test_random_graphs(seed: int) -> None:
    generator = Generator(seed, 10)
    mod, inputs = generator.module(), generator.inputs()
    check(mod, *inputs)


def test_sizes_that_a_run_decides() -> None:
    n = relay.Any()
    x, y = relay.var("x", shape=(n, 3)), relay.var("y", shape=(n, 3))
    f = relay.Function([x, y], relay.sort(relay.concatenate([relay.exp(x), relay.nn.softmax(y)], axis=0)))
    mod = relay.IRModule.from_expr(f)
    made = stages(mod)
    assert found(made[0], "vm.shape_func") and found(made[0], "vm.shape_of")
    rng = np.random.default_rng(0)
    for rows in (1, 4):
        args = [rng.random((rows, 3), dtype=np.float32) for _ in range(2)]
        for m in made:
            np.testing.assert_allclose(evaluate(m, *args)[0], evaluate(mod, *args)[0], rtol=1e-5)
        np.testing.assert_allclose(evaluate(made[2], *args, kind="vm")[0], evaluate(mod, *args)[0], rtol=1e-5)


def test_shapes_that_data_decides() -> None:
    x = relay.var("x", shape=(relay.Any(), 2))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.sqrt(relay.argwhere(x).astype("float32"))))
    made = stages(mod)
    assert any([all(c.attrs.is_input) for c in found(made[0], "vm.shape_func")])
    data = np.float32([[0, 1], [2, 0], [0, 0]])
    for m in made:
        np.testing.assert_allclose(evaluate(m, data)[0], evaluate(mod, data)[0])
    np.testing.assert_allclose(evaluate(made[2], data, kind="vm")[0], evaluate(mod, data)[0])


def test_branches_recursion_and_references() -> None:
    text = """#[version = "0.0.5"]
def @loop(%i: int32, %x: Tensor[(4), float32]) -> Tensor[(4), float32] {
  if (equal(%i, 0)) { %x } else { @loop(subtract(%i, 1), sort(add(%x, multiply(%x, %x)))) }
}
def @main(%x: Tensor[(4), float32]) -> (Tensor[(4), float32], Tensor[(4), float32]) {
  let %r = ref(exp(%x));
  let %a = sort(negative(%x));
  let %u = ref_write(%r, %a);
  let %b = sort(@loop(3, tanh(%x)));
  let %c = sort(exp(%b));
  (ref_read(%r), %c)
}
"""
    check(relay.fromtext(text), np.float32([0.3, -0.1, 0.2, 0.9]))


def test_programs_written_by_hand() -> None:
    x = relay.var("x", shape=(8,))
    p = relay.var("p", shape=(8,))
    func = relay.Function([p], relay.exp(p)).with_attr("Primitive", 1)
    number = [relay.const(np.int64(v)) for v in (32, 64, 0)]
    shape = relay.const(np.array([8], "int64"))
    storage = relay.var("s")
    out = relay.var("out")
    sb = relay.ScopeBuilder()
    s = sb.let(storage, relay.op.memory.alloc_storage(number[0], shape, number[1], tvm.cpu(), "float32"))
    t = sb.let(out, relay.op.memory.alloc_tensor(s, number[2], shape, "float32"))
    sb.let("u", relay.op.vm.invoke_tvm_op(func, relay.Tuple([x]), relay.Tuple([t])))
    sb.let("k", relay.op.memory.kill(s))
    sb.ret(t)
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x], sb.get())))
    data = np.linspace(0, 1, 8, dtype=np.float32)
    for kind in ("debug", "vm", "graph"):
        np.testing.assert_allclose(evaluate(mod, data, kind=kind)[0], np.exp(data), rtol=1e-5)


def test_what_is_refused() -> None:
    x = relay.var("x", shape=(8,))
    number = [relay.const(np.int64(v)) for v in (16, 64, 0)]
    shape = relay.const(np.array([8], "int64"))
    made = relay.op.memory.alloc_tensor(
        relay.op.memory.alloc_storage(number[0], shape, number[1], tvm.cpu()), number[2], shape
    )
    short = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x], relay.add(x, made))))
    with pytest.raises(tvm.TVMError, match="the tensor ends at byte 32 of a storage of 16"):
        evaluate(short, np.zeros(8, "float32"))
    named = relay.transform.ToANormalForm()(short)
    with pytest.raises(tvm.TVMError, match="is read before a call has written it"):
        relay.vm.compile(named, "llvm")
    with pytest.raises(tvm.TVMError, match="a tensor lies in a storage"):
        relay.transform.InferType()(
            relay.IRModule.from_expr(relay.Function([x], relay.op.memory.alloc_tensor(x, number[2], shape)))
        )


def test_shapes_and_reshapes_of_the_machine() -> None:
    n = relay.Any()
    x = relay.var("x", shape=(n, 2))
    f = relay.Function([x], relay.op.vm.reshape_tensor(x, relay.op.vm.shape_of(relay.transpose(x)), (2, n)))
    mod = relay.transform.InferType()(relay.IRModule.from_expr(f))
    assert str(mod["main"].ret_type) == "Tensor[(2, ?), float32]"
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    for kind in ("debug", "vm"):
        np.testing.assert_array_equal(evaluate(mod, data, kind=kind)[0], data.reshape(2, 3))
