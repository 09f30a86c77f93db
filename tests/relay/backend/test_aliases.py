"""Slices that are read where they lie, and concatenations whose parts are written in place: random graphs of them, on the planned arena and
compiled; what needs no copy."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.executors.test_graph import damaged
from tests.relay.backend.test_execution_plan import overlaps, planned, run_kernel
from tests.relay.random_graphs import evaluate
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.contrib.debugger import debug_executor
from tilewright.ir import IRModule
from tilewright.node.field_values import numpy_dtype
from tilewright.relay.backend import Executor
from tilewright.relay.backend.planning.aliases import parts_of
from tilewright.relay.backend.planning.graph_json import graph_json
from tilewright.relay.backend.planning.memory_plan import Storage
from tilewright.relay.backend.planning.plan import Plan
from tilewright.relay.backend.planning.plan_executor import run_plan
from tilewright.relay.transform import infer_types
from tilewright.runtime.vm import VirtualMachine

Pool = list[relay.Expr]


def opaque(e: relay.Expr, axis: int = -1) -> relay.Expr:
    """A value that a kernel of its own computes."""
    return relay.sort(e, axis=axis, is_ascend=False)


class Concatenations:
    """A random program: concatenations and slices of each other, of inputs, constants and computed values, along any axis; all exact."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.dtype = self.rng.choice(["float32", "float32", "bfloat16", "int8", "float64"])
        # Rows of 64 bytes keep pieces aligned; others do not, or only together.
        row = 64 // numpy_dtype(self.dtype).itemsize
        self.row = self.rng.choice([row, row, row, row, row // 2, 3])
        self.params = [relay.var(f"x{i}", shape=(1, i + 1, self.row), dtype=self.dtype) for i in range(2)]
        self.pool: Pool = [*self.params, relay.const(self.array(1, 2, self.row))]
        for _ in range(self.rng.randint(6, 14)):
            made = self.grow()
            infer_types(made)
            if np.prod(self.shape(made)) <= 40 * self.row:
                self.pool.append(made)
        chosen = [self.pool[-1], *self.rng.sample(self.pool, self.rng.choice([0, 0, 1, 2]))]
        self.mod = IRModule.from_expr(relay.Function(self.params, relay.Tuple(chosen)))
        self.inputs = [self.array(1, i + 1, self.row) for i in range(2)]

    def array(self, *shape: int) -> np.ndarray[Any, Any]:
        return (
            np.array([self.rng.randint(-9, 9) for _ in range(int(np.prod(shape)))])
            .reshape(shape)
            .astype(numpy_dtype(self.dtype))
        )

    @staticmethod
    def shape(e: relay.Expr) -> tuple[int, ...]:
        t = infer_types(e)
        assert isinstance(t, relay.TensorType)
        return t.concrete_shape

    def pick(self) -> relay.Expr:
        return self.rng.choice(self.pool[-5:] if self.rng.random() < 0.8 else self.pool)

    def grow(self) -> relay.Expr:
        x = self.pick()
        kind = self.rng.random()
        if kind < 0.35:
            return opaque(
                x if self.rng.random() < 0.5 else self.rng.choice([relay.negative, relay.nn.relu])(x),
                self.rng.choice([1, 2]),
            )
        if kind < 0.45:
            others = [e for e in self.pool if self.shape(e) == self.shape(x)]
            return relay.maximum(x, self.rng.choice(others))
        if kind < 0.55:
            n, c, r = self.shape(x)
            return relay.reshape(relay.reshape(x, (c, r)), (n, c, r))
        if kind < 0.6:
            return relay.split(x, self.shape(x)[1], axis=1)[0]
        if kind < 0.72:
            return opaque(self.cut(x), self.rng.choice([1, 2]))
        axis = self.rng.choice([1, 1, 1, 1, -2, 0, 2])
        others = [
            e
            for e in self.pool
            if all([a == b or i == axis % 3 for i, (a, b) in enumerate(zip(self.shape(e), self.shape(x), strict=True))])
        ]
        parts = [x, *[self.rng.choice(others[-4:]) for _ in range(self.rng.randint(0, 3))]]
        self.rng.shuffle(parts)
        joined = relay.concatenate(parts, axis=axis)
        n, c, r = self.shape(joined)
        return relay.reshape(joined, (1, n * c * r // self.row, self.row))

    def cut(self, x: relay.Expr) -> relay.Expr:
        """Some rows; now and then parts of rows, or every other one."""
        _, c, r = self.shape(x)
        begin = self.rng.randrange(c)
        end = self.rng.randint(begin + 1, c)
        left = self.rng.choice([0, 0, 0, r // 2])
        step = self.rng.choice([1, 1, 1, 2])
        made = relay.strided_slice(x, [0, begin, left], [1, end, r], [1, step, 1])
        return made if left == 0 else relay.concatenate([made, made], axis=2) if r == 2 * left else x


def cuts(p: Plan) -> int:
    """Slices that no kernel computes."""
    return sum([n["name"].startswith("slice_nop") for n in graph_of(p)["nodes"]])


def joins(p: Plan) -> int:
    """Concatenations that no kernel computes."""
    return sum([n["name"].startswith("concatenate_nop") for n in graph_of(p)["nodes"]])


def graph_of(p: Plan) -> Any:
    return json.loads(graph_json(p, []))


def storages(p: Plan) -> list[Storage]:
    return list({id(a.storage): a.storage for c in p.calls for a in c.args if a.storage is not None}.values())


def same(got: list[Any], want: list[Any]) -> None:
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(np.asarray(g), np.asarray(w))


def test_random_concatenations_on_the_planned_arena() -> None:
    joined = cut = 0
    for seed in range(75):
        case = Concatenations(seed)
        p = planned(case.mod)
        same(run_plan(p, case.inputs, run_kernel), evaluate(case.mod, case.inputs))
        assert overlaps(storages(p)) == []
        joined += joins(p)
        cut += cuts(p)
    assert joined > 10 and cut > 3


@pytest.mark.parametrize("executor", ["aot", "graph"])
def test_random_concatenations_compiled(executor: str) -> None:
    for seed in range(200, 212):
        case = Concatenations(seed)
        lib = relay.build(case.mod, "llvm", executor=Executor(executor))
        module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
        want = evaluate(case.mod, case.inputs)
        for again in (False, True):
            if again:
                # Outputs in memory of the caller's: parts of them are written there.
                outputs = [tvm.nd.empty(w.shape, str(w.dtype)) for w in want]
                for i, out in enumerate(outputs):
                    module.set_output_zero_copy(i, out)
            module.run(**{f"x{i}": x for i, x in enumerate(case.inputs)})
            same([module.get_output(i).numpy() for i in range(len(want))], want)
            if again:
                same([out.numpy() for out in outputs], want)


def test_random_concatenations_in_the_virtual_machine() -> None:
    parts = 0
    for seed in range(300, 320):
        case = Concatenations(seed)
        executable = relay.vm.compile(case.mod, "llvm")
        parts += executable.bytecode.count("part_static")
        result = VirtualMachine(executable, tvm.cpu()).invoke("main", *[tvm.nd.array(x) for x in case.inputs])
        same([r.numpy() for r in result], evaluate(case.mod, case.inputs))
    assert parts > 7


def test_results_of_the_virtual_machine_hold_their_own_memory_only() -> None:
    a, b = features(2)
    for result, parts in (
        (relay.Tuple([a, relay.nn.softmax(relay.concatenate([a, b], axis=1))]), 3),
        (relay.Tuple([relay.nn.softmax(a), relay.nn.softmax(relay.concatenate([a, b], axis=1))]), 3),
        (relay.concatenate([a, b], axis=1), 3),
    ):
        executable = relay.vm.compile(IRModule.from_expr(relay.Function([X], result)), "llvm")
        assert executable.bytecode.count("part_static") == parts
        assert ("fused_copy" in executable.bytecode) == (isinstance(result, relay.Tuple) and result.fields[0] is a)


def test_branches_of_the_virtual_machine_join_their_own() -> None:
    """Parts are written in place along straight code only; what comes from elsewhere is copied."""
    a, b = features(2)
    c = relay.var("c", shape=(), dtype="bool")
    chosen = relay.If(c, relay.concatenate([b, opaque(b)], axis=1), relay.concatenate([b, b], axis=1))
    result = relay.Tuple(
        [relay.concatenate([a, relay.nn.softmax(chosen), b], axis=1), relay.concatenate([a, b], axis=1)]
    )
    mod = IRModule.from_expr(relay.Function([X, c], result))
    executable = relay.vm.compile(mod, "llvm")
    assert "part_static" in executable.bytecode
    for value in (True, False):
        want = evaluate(mod, [DATA, np.array(value)])
        got = VirtualMachine(executable, tvm.cpu()).invoke("main", tvm.nd.array(DATA), tvm.nd.array(np.array(value)))
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g.numpy(), w, rtol=1e-5, atol=1e-6)


def kernels(p: Plan) -> list[str]:
    return [c.kernel.name for c in p.calls]


X = relay.var("x", shape=(1, 4, 16))
DATA = np.random.default_rng(0).standard_normal((1, 4, 16)).astype("float32")


def features(count: int) -> list[relay.Expr]:
    """Values of 4 rows, each computed from the one before."""
    made = [opaque(X)]
    while len(made) < count:
        made.append(opaque(made[-1], 1))
    return made


def check(body: relay.Expr) -> Plan:
    """The plan of a program over X, whose results were compared."""
    mod = IRModule.from_expr(relay.Function([X], body))
    p = planned(mod)
    got, want = run_plan(p, [DATA], run_kernel), evaluate(mod, [DATA])
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)
    return p


def test_slices_are_read_where_they_lie() -> None:
    x = relay.var("x", shape=(1, 8, 16))
    y = opaque(x)
    w = opaque(relay.strided_slice(y, (0, 2, 0), (1, 5, 16)), 1)
    z = opaque(relay.strided_slice(relay.reshape(y, (8, 16)), (5,), (8,)), 0)
    p = planned(IRModule.from_expr(relay.Function([x], relay.Tuple([w, z]))))
    assert kernels(p) == ["fused_sort", "fused_sort_1", "fused_sort_2"]
    assert [c.args[0].offset for c in p.calls] == [0, 2 * 64, 5 * 64]
    assert len(storages(p)) == 1
    data = [np.random.default_rng(0).standard_normal((1, 8, 16)).astype("float32")]
    same(run_plan(p, data, run_kernel), evaluate(IRModule.from_expr(relay.Function([x], relay.Tuple([w, z]))), data))


def test_slices_of_inputs_and_constants() -> None:
    table = relay.const(np.random.default_rng(1).standard_normal((1, 6, 16)).astype("float32"))
    a = opaque(relay.strided_slice(X, (0, 1, 0), (1, 3, 16)))
    b = opaque(relay.strided_slice(table, (0, 3, 0), (1, 5, 16)))
    with tvm.transform.PassContext(disabled_pass=["FoldConstant"]):
        p = check(relay.Tuple([a, b]))
    assert kernels(p) == ["fused_sort", "fused_sort"]
    assert [(c.args[0].kind, c.args[0].offset) for c in p.calls] == [("input", 64), ("constant", 192)]


@pytest.mark.parametrize("executor", ["aot", "graph"])
def test_slices_of_inputs_in_memory_of_the_callers(executor: str) -> None:
    body = opaque(relay.strided_slice(X, (0, 1, 0), (1, 3, 16)))
    lib = relay.build(IRModule.from_expr(relay.Function([X], body)), "llvm", executor=Executor(executor))
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    for seed in range(2):
        data = np.random.default_rng(seed).standard_normal((1, 4, 16)).astype("float32")
        given = tvm.nd.array(data)
        module.set_input_zero_copy("x", given)
        module.run()
        np.testing.assert_array_equal(module.get_output(0).numpy(), -np.sort(-data[:, 1:3]))


def test_slices_that_a_kernel_copies() -> None:
    y = opaque(X)
    for value in (
        relay.strided_slice(y, (0, 0, 4), (1, 4, 8)),  # pieces of rows
        relay.strided_slice(y, (0, 0, 0), (1, 4, 16), (1, 2, 1)),  # every other row
        relay.strided_slice(relay.reshape(y, (2, 2, 16)), (0, 1, 0), (2, 2, 16)),  # of a batch of two
        relay.strided_slice(relay.reshape(y, (1, 8, 8)), (0, 1, 0), (1, 8, 8)),  # begins at byte 32
    ):
        p = check(opaque(value))
        assert len(kernels(p)) == 3 and kernels(p)[1].endswith("strided_slice")
    for results in (
        [relay.strided_slice(y, (0, 1, 0), (1, 3, 16))],
        [y, relay.strided_slice(y, (0, 1, 0), (1, 3, 16))],
    ):
        assert kernels(check(relay.Tuple(results))) == ["fused_sort", "fused_strided_slice"]


def test_a_slice_does_not_keep_much_memory_alive() -> None:
    """What a slice is cut from lives as long as it: where that needs more memory, the slice is copied."""
    x = relay.var("x", shape=(1, 64, 16))
    y = opaque(x)
    first = relay.strided_slice(y, (0, 0, 0), (1, 1, 16))
    y = opaque(relay.add(opaque(first), opaque(y, 1)))
    p = planned(IRModule.from_expr(relay.Function([x], y)))
    assert cuts(p) == 1
    for _ in range(3):
        y = opaque(relay.nn.softmax(y), 1)
    p = planned(IRModule.from_expr(relay.Function([x], opaque(relay.add(y, opaque(first, 1))))))
    assert cuts(p) == 0
    assert p.workspace_bytes == 2 * 64 * 64 + 2 * 64


def test_producers_write_into_the_result() -> None:
    a, b = features(2)
    p = check(relay.nn.softmax(relay.concatenate([a, b], axis=1)))
    assert kernels(p) == ["fused_sort", "fused_sort_1", "fused_nn_softmax"]
    first, second = [c.args[-1] for c in p.calls[:2]]
    assert first.storage is second.storage is p.calls[2].args[0].storage
    assert (first.offset, second.offset) == (0, 256)


def test_the_result_may_be_an_output() -> None:
    a, b = features(2)
    p = check(relay.reshape(relay.concatenate([a, b], axis=1), (8, 16)))
    assert kernels(p) == ["fused_sort", "fused_sort_1"]
    assert [(c.args[-1].kind, c.args[-1].offset) for c in p.calls] == [("output", 0), ("output", 256)]
    assert p.workspace_bytes == 0


def test_a_part_of_a_part() -> None:
    a, b, c = features(3)
    inner = relay.concatenate([a, b], axis=1)
    outer = relay.concatenate([c, inner], axis=1)
    p = check(relay.Tuple([relay.nn.softmax(inner), relay.nn.softmax(outer)]))
    assert kernels(p) == ["fused_sort", "fused_sort_1", "fused_nn_softmax", "fused_sort_1", "fused_nn_softmax_1"]
    assert [c.args[-1].offset for c in p.calls if "sort" in c.kernel.name] == [256, 512, 0]
    assert p.calls[2].args[0].offset == 256
    assert len(storages(p)) == 1


def test_what_stands_in_a_larger_one_already() -> None:
    a, b, c = features(3)
    first, all_of_them = relay.concatenate([b, c], axis=1), relay.concatenate([a, b, c], axis=1)
    p = check(relay.Tuple([relay.nn.softmax(first), relay.nn.softmax(all_of_them)]))
    assert [k for k in kernels(p) if "sort" not in k and "softmax" not in k] == []
    assert len(storages(p)) == 1


def test_dense_blocks_have_no_copying_kernel() -> None:
    """Each layer reads all that came before, and its own features are put at their end, or all features are joined again."""
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(1, 32, 6, 6))

    def layer(value: relay.Expr, channels: int) -> relay.Expr:
        w = relay.const((0.1 * rng.standard_normal((16, channels, 3, 3))).astype("float32"))
        return relay.nn.relu(relay.nn.conv2d(value, w, padding=(1, 1), kernel_size=(3, 3), channels=16))

    nested = layer(x, 32)
    for i in range(5):
        nested = relay.concatenate([nested, layer(nested, 16 * (i + 1))], axis=1)
    flat = [layer(x, 32)]
    for i in range(5):
        flat.append(layer(relay.concatenate(flat, axis=1) if i else flat[0], 16 * (i + 1)))
    data = [rng.standard_normal((1, 32, 6, 6)).astype("float32")]
    for value in (nested, relay.concatenate(flat, axis=1)):
        w = relay.const((0.1 * rng.standard_normal((16, 96, 1, 1))).astype("float32"))
        mod = IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.conv2d(value, w))))
        lib = relay.build(mod, "llvm -mcpu=x86-64-v3")
        assert [k for k in kernels(lib.plan) if "concatenate" in k] == []
        # One storage holds all features; what else there is is the input in blocks, while the first layer reads it.
        assert lib.plan.workspace_bytes == (96 + 32) * 36 * 4
        (got,) = [relay.create_executor("aot", mod).evaluate()(*data).numpy()]
        np.testing.assert_allclose(got, evaluate(mod, data)[0], rtol=2e-4, atol=2e-4)


def test_what_cannot_be_written_in_place_is_copied_alone() -> None:
    a, b = features(2)
    constant = relay.const(np.ones((1, 2, 16), "float32"))
    for parts, copies in (
        ([a, b, X], 1),  # an input
        ([constant, a, b], 1),
        ([a, b, a, b], 2),  # each twice
        ([a, X], 1),
    ):
        p = check(relay.nn.softmax(relay.concatenate(parts, axis=1)))
        assert len([k for k in kernels(p) if k.startswith("fused_copy")]) == copies
        assert not [k for k in kernels(p) if "concatenate" in k]


def test_what_stays_one_kernel() -> None:
    a, b = features(2)
    wide = opaque(relay.reshape(X, (2, 2, 16)))
    short = opaque(relay.strided_slice(X, (0, 0, 0), (1, 3, 5)))
    for value in (
        relay.concatenate([a, X, X], axis=1),  # more copies than parts in place
        relay.concatenate([X, X], axis=1),
        relay.concatenate([a, b], axis=2),  # rows of the parts alternate
        relay.concatenate([wide, wide], axis=1),  # a batch of two
        relay.concatenate([short, opaque(short, 1)], axis=1),  # the second would begin at byte 60
    ):
        p = check(relay.nn.softmax(value))
        assert len([k for k in kernels(p) if k.startswith("fused_concatenate")]) == 1


def test_what_is_an_output_too() -> None:
    """A part that is an output is written there, and copied; its neighbour is not."""
    a, b = features(2)
    p = check(relay.Tuple([a, relay.nn.softmax(relay.concatenate([a, b], axis=1))]))
    assert kernels(p) == ["fused_sort", "fused_sort_1", "fused_copy", "fused_nn_softmax"]
    p = check(relay.Tuple([b, relay.concatenate([a, b], axis=1)]))
    assert kernels(p) == ["fused_sort", "fused_sort_1", "fused_copy"]


def test_a_part_of_two_is_copied_into_one() -> None:
    a, b, c = features(3)
    p = check(
        relay.Tuple(
            [relay.nn.softmax(relay.concatenate([a, b], axis=1)), relay.nn.softmax(relay.concatenate([c, a], axis=1))]
        )
    )
    assert len([k for k in kernels(p) if k.startswith("fused_copy")]) == 1


def test_nothing_takes_the_place_of_a_part() -> None:
    """An element-wise kernel may write over all of a concatenation once nothing needs it, never over a part."""
    a, b = features(2)
    whole = relay.concatenate([a, b], axis=1)
    c = relay.negative(b)
    p = check(
        relay.Tuple([relay.nn.softmax(whole), relay.nn.softmax(c), relay.sort(c), relay.nn.softmax(relay.exp(whole))])
    )
    by_name = {c.kernel.name: c.args for c in p.calls}
    assert by_name["fused_negative"][0].storage is not by_name["fused_negative"][1].storage
    exp = next(args for name, args in by_name.items() if "exp" in name)
    assert exp[0].storage is by_name["fused_sort"][1].storage


def test_memory_is_not_taken_too_early() -> None:
    """A part that is computed long before the others, and little of the whole, is copied where its neighbours' memory would be missed."""
    (early,) = features(1)
    large = opaque(opaque(relay.tile(early, (1, 16, 1)), 1))
    late = opaque(relay.strided_slice(large, (0, 0, 0), (1, 60, 16)))
    p = check(relay.nn.softmax(relay.concatenate([early, late], axis=1)))
    assert "fused_concatenate" in kernels(p)
    assert p.workspace_bytes == (4 + 64 + 64) * 64
    late = opaque(relay.strided_slice(large, (0, 0, 0), (1, 4, 16)))
    p = check(relay.nn.softmax(relay.concatenate([late, opaque(late, 1)], axis=1)))
    assert "fused_concatenate" not in kernels(p)
    assert p.workspace_bytes == (64 + 64) * 64


def test_what_another_compiler_takes_is_called() -> None:
    x, y = relay.var("x", shape=(1, 4, 16)), relay.var("y", shape=(1, 4, 16))
    func = relay.Function([x, y], relay.concatenate([x, y], axis=1))

    def call(f: relay.Function) -> relay.Expr:
        made = relay.Call(f, features(2))
        infer_types(made)
        return made

    assert parts_of(call(func.with_attr("Primitive", 1)), lambda e: e) is not None
    assert (
        parts_of(call(func.with_attr({"Primitive": 1, "Compiler": "other", "global_symbol": "f"})), lambda e: e) is None
    )


def graph_library() -> Any:
    a, b = features(2)
    joined = relay.concatenate([a, b], axis=1)
    return relay.build(
        IRModule.from_expr(relay.Function([X], relay.Tuple([relay.nn.softmax(joined), joined]))),
        "llvm",
        executor=Executor("graph"),
    )


def test_nodes_of_the_debug_executor() -> None:
    lib = graph_library()
    module = debug_executor.create(lib.get_graph_json(), lib.lib, tvm.cpu())
    module.set_input("x", DATA)
    module.run()
    nodes = [n["name"] for n in json.loads(lib.get_graph_json())["nodes"]]
    a = -np.sort(-DATA)
    whole = np.concatenate([a, -np.sort(-a, axis=1)], axis=1)
    joined = next(n for n in nodes if n.startswith("concatenate_nop"))
    np.testing.assert_allclose(module.debug_get_output(joined).numpy(), whole, rtol=1e-5)
    np.testing.assert_allclose(module.debug_get_output("fused_sort_1").numpy(), whole[:, 4:], rtol=1e-5)
    np.testing.assert_allclose(module.get_output(1).numpy(), whole, rtol=1e-5)


def test_kernels_one_by_one_and_exported(tmp_path: Path) -> None:
    a, b = features(2)
    mod = IRModule.from_expr(relay.Function([X], relay.concatenate([a, b], axis=1)))
    for name in ("graph", "aot"):
        lib = relay.build(mod, "llvm", executor=Executor(name))
        lib.export_library(str(tmp_path / f"{name}.so"))
        module = tvm.runtime.load_module(str(tmp_path / f"{name}.so"))["default"](tvm.cpu())
        module["set_input"]("x", DATA)
        for i in range(module["get_num_kernels"]()):
            module["run_kernel"](i)
        same([module["get_output"](0).numpy()], evaluate(mod, [DATA]))


def test_damaged_graphs() -> None:
    lib = graph_library()
    text = lib.get_graph_json()

    def refused(change: Any, message: str) -> None:
        graph = json.loads(text)
        node = next(n for n in graph["nodes"] if n["name"].startswith("concatenate_nop"))
        change(graph, node)
        with pytest.raises(ValueError, match=message):
            graph_executor.create(json.dumps(graph), lib, tvm.cpu())

    refused(lambda g, n: n["inputs"].append(n["inputs"][0]), "joins are of another size than the result")
    refused(lambda g, n: n["inputs"].clear(), "a view has one output")
    refused(lambda g, n: n["inputs"].__setitem__(0, [0, 0, 0]), "joins a tensor that is not written")


def test_damage_of_any_kind_is_refused_or_harmless() -> None:
    lib = graph_library()
    refused = 0
    for seed in range(300):
        text = damaged(json.loads(lib.get_graph_json()), random.Random(seed))
        try:
            module = graph_executor.create(text, lib, tvm.cpu())
            module.run()
            module.get_output(0)
        except (ValueError, IndexError, TypeError, MemoryError):
            refused += 1
    assert 150 < refused < 300
