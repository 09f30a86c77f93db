"""What indices outside of their axis and zero divisors mean: the same whatever runs the program; and the check that ends it instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.ir import SourceName, Span
from tilewright.relay.analysis import list_op_freqs
from tilewright.support.errors import BoundsError, DivisionByZeroError, TVMError

X = np.arange(12, dtype="float32").reshape(4, 3)
ROWS = np.array([3, -4, -5, 9, -1], "int32")
EXECUTORS = ("debug", "graph", "aot", "vm")


def picked(rows: Any) -> np.ndarray:
    return X[np.asarray(rows)]


def dropped(update: Callable[[np.ndarray], None]) -> np.ndarray:
    made = X.copy()
    update(made)
    return made


def ones(n: int) -> Any:
    return relay.const(np.full((n, 3), 7, "float32"))


CASES: dict[str, tuple[Callable[[Any, Any], Any], np.ndarray, np.ndarray, str]] = {
    "signed": (lambda x, i: relay.take(x, i, axis=0, mode="signed"), ROWS, picked([3, 0, 0, 3, 3]), "take|0|[-extent, extent)|4|-5"),
    "bounded": (lambda x, i: relay.take(x, i, axis=0, mode="bounded"), ROWS, picked([3, 0, 0, 3, 0]), "take|0|[0, extent)|4|-4"),
    "flat": (
        lambda x, i: relay.take(x, i, mode="signed"), np.array([11, -13, 12], "int32"), np.array([11, 0, 11], "float32"),
        "take|0|[-extent, extent)|12|-13",
    ),
    "gather": (
        lambda x, i: relay.gather(x, 1, i), np.array([[0, -1], [5, 1]], "int32"), np.array([[0, 2], [5, 4]], "float32"),
        "gather|1|[-extent, extent)|3|5",
    ),
    "gather_nd": (
        lambda x, i: relay.gather_nd(x, i), np.array([[3, 0], [-3, -4]], "int32"), np.array([9, 0], "float32"),
        "gather_nd|1|[-extent, extent)|3|-4",
    ),
    "adv_index": (
        lambda x, i: relay.adv_index([x, i]), np.array([4, 1], "int64"), picked([3, 1]), "adv_index|0|[-extent, extent)|4|4",
    ),
    "scatter_nd": (
        lambda x, i: relay.scatter_nd(x, relay.reshape(i, (1, 3)), ones(3)), np.array([-1, 4, 0], "int32"),
        dropped(lambda m: m.__setitem__([0, 3], 7)), "scatter_nd|0|[-extent, extent)|4|4",
    ),
    "scatter_elements": (
        lambda x, i: relay.scatter_elements(x, i, relay.const(np.full((1, 3), 7, "float32")), 0), np.array([[0, -5, -1]], "int64"),
        dropped(lambda m: m.__setitem__(([0, 3], [0, 2]), 7)), "scatter_elements|0|[-extent, extent)|4|-5",
    ),
}  # fmt: skip


def program(make: Callable[[Any, Any], Any], indices: np.ndarray, rows: Any = 4) -> relay.IRModule:
    """main(x, i) whose call has the name of a model's node."""
    x, i = relay.var("x", shape=(rows, 3)), relay.var("i", shape=indices.shape, dtype=indices.dtype.name)
    made = make(x, i)
    made = relay.Call(made.op, made.args, made.attrs, made.type_args, Span(SourceName("node_7"), 0, 0, 0, 0))
    return relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x, i], made)))


def run(kind: str, mod: relay.IRModule, *args: np.ndarray, check: bool = False) -> np.ndarray:
    with tvm.transform.PassContext(opt_level=3, config={"relay.check_bounds": check}):
        return relay.create_executor(kind, mod).evaluate()(*args).numpy()  # type: ignore[no-any-return]


def text_of(error: str) -> str:
    name, axis, interval, extent, index = error.split("|")
    return f"{name} (node_7): an index along axis {axis} must lie in {interval}, but the extent is {extent} and the index is {index}"


@pytest.mark.parametrize("kind", EXECUTORS)
@pytest.mark.parametrize("name", CASES)
def test_indices_outside(name: str, kind: str) -> None:
    make, indices, want, error = CASES[name]
    mod = program(make, indices)
    np.testing.assert_array_equal(run(kind, mod, X, indices), want)
    with pytest.raises(BoundsError) as caught:
        run(kind, mod, X, indices, check=True)
    assert str(caught.value) == text_of(error) and isinstance(caught.value, IndexError)


@pytest.mark.parametrize("name", CASES)
def test_constants_are_folded_by_the_same_rule(name: str) -> None:
    make, indices, want, error = CASES[name]
    made = make(relay.const(X), relay.const(indices))
    folded = relay.transform.FoldConstant()(relay.IRModule.from_expr(made))["main"].body
    np.testing.assert_array_equal(folded.value, want)
    # With the check what is outside stays, and fails when it runs.
    x = relay.var("x", shape=(4, 3))
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x], make(x, relay.const(indices)))))
    for kind in EXECUTORS:
        np.testing.assert_array_equal(run(kind, mod, X), want)
        with pytest.raises(BoundsError, match=error.split("|")[-1]):
            run(kind, mod, X, check=True)


@pytest.mark.parametrize("name", CASES)
def test_what_is_inside_passes_the_check(name: str) -> None:
    make, indices, _, _ = CASES[name]
    inside = np.clip(indices, 0, 2)
    mod = program(make, indices)
    for kind in EXECUTORS:
        np.testing.assert_array_equal(run(kind, mod, X, inside, check=True), run(kind, mod, X, inside))


def test_known_indices_cost_nothing() -> None:
    x = relay.var("x", shape=(4, 3))
    whole = relay.take(x, relay.const(np.array([1, -1], "int32")), axis=0, mode="signed")
    whole = whole + relay.cast(relay.floor_divide(relay.cast(whole, "int32"), relay.const(np.int32(3))), "float32")
    mod = relay.transform.CheckBounds()(relay.IRModule.from_expr(relay.Function([x], whole)))
    assert not [name for name in list_op_freqs(mod) if name.startswith("annotation")]


@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_modes_of_classic_take_are_no_mistakes(mode: str) -> None:
    mod = program(lambda x, i: relay.take(x, i, axis=0, mode=mode), ROWS)
    want = np.take(X, ROWS, 0, mode=mode)
    for kind in EXECUTORS:
        np.testing.assert_array_equal(run(kind, mod, X, ROWS, check=True), want)


def test_updates_that_are_meant_to_fall_outside() -> None:
    indices = np.array([4, 0], "int32")
    mod = program(lambda x, i: relay.scatter_nd(x, relay.reshape(i, (1, 2)), ones(2), outside=True), indices)
    np.testing.assert_array_equal(run("graph", mod, X, indices, check=True)[0], [7, 7, 7])


@pytest.mark.parametrize("name", ["signed", "gather_nd", "scatter_nd"])
def test_extents_that_only_a_run_knows(name: str) -> None:
    make, indices, want, error = CASES[name]
    mod = program(make, indices, relay.Any())
    np.testing.assert_array_equal(run("vm", mod, X, indices), want)
    with pytest.raises(BoundsError) as caught:
        run("vm", mod, X, indices, check=True)
    assert str(caught.value) == text_of(error)
    more = np.concatenate([X] * 5)
    if name == "signed":
        np.testing.assert_array_equal(run("vm", mod, more, indices, check=True), more[indices])


DIVISIONS = {
    "divide": [0, 0, -(2**31), -3],
    "floor_divide": [0, 0, -(2**31), -4],
    "trunc_divide": [0, 0, -(2**31), -3],
    "mod": [0, 0, 0, -1],
    "floor_mod": [0, 0, 0, 1],
    "trunc_mod": [0, 0, 0, -1],
}


@pytest.mark.parametrize("kind", EXECUTORS)
@pytest.mark.parametrize("name", DIVISIONS)
def test_integers_by_zero(name: str, kind: str) -> None:
    a, b = np.array([5, -5, -(2**31), -7], "int32"), np.array([0, 0, -1, 2], "int32")
    x, y = relay.var("x", shape=(4,), dtype="int32"), relay.var("y", shape=(4,), dtype="int32")
    made = getattr(relay, name)(x, y)
    made = relay.Call(made.op, made.args, made.attrs, made.type_args, Span(SourceName("node_7"), 0, 0, 0, 0))
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x, y], made)))
    np.testing.assert_array_equal(run(kind, mod, a, b), DIVISIONS[name])
    folded = relay.transform.FoldConstant()(
        relay.IRModule.from_expr(getattr(relay, name)(relay.const(a), relay.const(b)))
    )
    np.testing.assert_array_equal(folded["main"].body.value, DIVISIONS[name])
    with pytest.raises(DivisionByZeroError) as caught:
        run(kind, mod, a, b, check=True)
    assert str(caught.value) == f"{name} (node_7): an integer is divided by zero"
    assert isinstance(caught.value, ZeroDivisionError) and isinstance(caught.value, TVMError)
    whole = np.where(b == 0, 3, b)
    np.testing.assert_array_equal(run(kind, mod, a, whole, check=True), run(kind, mod, a, whole))


def test_floats_are_not_checked() -> None:
    x = relay.var("x", shape=(2,))
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x], x / x)))
    assert np.isnan(run("graph", mod, np.zeros(2, "float32"), check=True)).all()


@pytest.mark.parametrize("kind", ["graph", "aot", "vm"])
@pytest.mark.parametrize("wrong", [0, 31_000, 49_999])
def test_an_error_within_a_parallel_loop(kind: str, wrong: int) -> None:
    indices = np.arange(50_000, dtype="int64") % 4
    indices[wrong] = -77
    mod = program(lambda x, i: relay.take(x, i, axis=0, mode="signed"), indices)
    with tvm.transform.PassContext(opt_level=3, config={"relay.check_bounds": True}):
        call = relay.create_executor(kind, mod).evaluate()
    for _ in range(3):
        with pytest.raises(BoundsError, match="the extent is 4 and the index is -77$"):
            call(X, indices)
        right = np.abs(indices) % 4
        np.testing.assert_array_equal(call(X, right).numpy(), X[right])


def test_an_exported_library_checks(tmp_path: Path) -> None:
    mod = program(*CASES["gather_nd"][:2])
    with tvm.transform.PassContext(opt_level=3, config={"relay.check_bounds": True}):
        relay.build(mod, target="llvm").export_library(str(tmp_path / "checked.so"))
    model = graph_executor.GraphModule(tvm.runtime.load_module(str(tmp_path / "checked.so"))["default"](tvm.cpu()))
    model.set_input("x", X)
    model.set_input("i", np.array([[0, 1], [0, 3]], "int32"))
    with pytest.raises(BoundsError, match=r"gather_nd \(node_7\): .* axis 1 .* extent is 3 and the index is 3$"):
        model.run()
    model.set_input("i", np.array([[0, 1], [2, -3]], "int32"))
    model.run()
    np.testing.assert_array_equal(model.get_output(0).numpy(), [2, 3])


def test_without_the_option_the_code_has_no_check() -> None:
    mod = program(*CASES["signed"][:2])
    with tvm.transform.PassContext(opt_level=3):
        names = list_op_freqs(relay.optimize(mod, target="llvm")[0])
    assert not [name for name in names if name.startswith("annotation")]
