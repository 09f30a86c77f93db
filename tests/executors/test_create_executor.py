"""relay.create_executor: one interface, whatever runs the program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.executors.models import close, dense_model
from tilewright import relay
from tilewright.support.errors import TVMError

KINDS = ["debug", "graph", "aot", "vm"]
MOD, PARAMS, X, WANT = dense_model()


def values(found: Any) -> list[np.ndarray]:
    return [v.numpy() for v in found]


@pytest.mark.parametrize("kind", KINDS)
def test_main(kind: str) -> None:
    run = relay.create_executor(kind, MOD, tvm.cpu(0), "llvm", PARAMS).evaluate()
    for found in (run(X), run(x=X), run(tvm.nd.array(X))):
        assert len(found) == 2
        for f, w in zip(values(found), WANT, strict=True):
            np.testing.assert_allclose(f, w, rtol=1e-4, atol=1e-5)
    first = run(X)
    run(0 * X)
    close(first[1], WANT[1])


@pytest.mark.parametrize("kind", KINDS)
def test_functions_and_expressions(kind: str) -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.exp(x)))
    mod["other"] = relay.Function([y], relay.negative(y))
    executor = relay.create_executor(kind, mod)
    ones = np.ones(2, "float32")
    close(executor.evaluate(mod.get_global_var("other"))(ones), -ones)
    close(executor.evaluate("other")(y=ones), -ones)
    a, b = relay.var("a", shape=(2,)), relay.var("b", shape=(2,))
    close(executor.evaluate(relay.Function([a, b], relay.subtract(a, b)))(3 * ones, b=ones), 2 * ones)
    close(executor.evaluate(a + relay.const(1.0), {a: ones}), 2 * ones)
    close(executor.evaluate(relay.const(np.array([3.0, 4.0], "float32"))), np.array([3, 4]))
    close(relay.create_executor(kind).evaluate(relay.Function([a], relay.exp(a)))(0 * ones), ones)


@pytest.mark.parametrize("kind", ["debug", "graph", "aot"])
def test_nested_results(kind: str) -> None:
    x = relay.var("x", shape=(2,))
    body = relay.Tuple([relay.Tuple([x, relay.exp(x)]), relay.negative(x)])
    found = relay.create_executor(kind, tvm.IRModule.from_expr(relay.Function([x], body))).evaluate()(
        np.zeros(2, "float32")
    )
    assert isinstance(found, list) and isinstance(found[0], list)
    close(found[0][1], np.ones(2))


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_arguments(kind: str) -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    executor = relay.create_executor(kind, tvm.IRModule.from_expr(relay.Function([x, y], relay.add(x, y))))
    run = executor.evaluate()
    ones = np.ones(2, "float32")
    with pytest.raises(TypeError, match="the argument y was not given"):
        run(ones)
    with pytest.raises(TypeError, match=r"the function takes 2 arguments \(x, y\), but 3 were given"):
        run(ones, ones, ones)
    with pytest.raises(TypeError, match="the argument x was given twice, by position and by name"):
        run(ones, x=ones)
    with pytest.raises(TypeError, match="the function has no parameter z; its parameters are: x, y"):
        run(ones, z=ones)
    with pytest.raises(TVMError, match="the variable %x is free in the expression; give its value in `binds`"):
        executor.evaluate(relay.exp(x))
    with pytest.raises(TypeError, match="evaluate takes a relay expression, a GlobalVar or a name, not a int"):
        executor.evaluate(3)
    with pytest.raises(TVMError, match="there is nothing to evaluate: the executor has no module with a main"):
        relay.create_executor(kind).evaluate()


def test_numbers_and_lists_as_arguments() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(), dtype="int32")
    body = relay.add(x, relay.cast(y, "float32"))
    for kind in ("graph", "aot"):
        run = relay.create_executor(kind, tvm.IRModule.from_expr(relay.Function([x, y], body))).evaluate()
        close(run([1.0, 2.0], 3), np.array([4, 5]))


def test_control_flow_is_for_the_machine() -> None:
    text = """#[version = "0.0.5"]
def @main(%x: Tensor[(2), float32]) {
  if (sum(%x) < 0f) { negative(%x) } else { %x }
}"""
    mod = relay.parse(text)
    for kind in ("graph", "aot"):
        with pytest.raises(TVMError) as caught:
            relay.create_executor(kind, mod).evaluate()
        assert str(caught.value).startswith(
            "from_string:3:3: the graph and ahead-of-time executors run dataflow graphs of operators, but main holds If."
            " relay.vm.compile(mod, target) takes programs with control flow, data types and functions"
        )
    close(relay.create_executor("vm", mod).evaluate()(-np.ones(2, "float32")), np.ones(2))


def test_dynamic_sizes_are_for_the_machine() -> None:
    x = relay.var("x", shape=(relay.Any(), 2))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.exp(x)))
    for kind in ("graph", "aot"):
        with pytest.raises(TVMError, match="has a dimension that is not known, but ahead-of-time code has fixed sizes"):
            relay.create_executor(kind, mod).evaluate()
    close(relay.create_executor("vm", mod).evaluate()(np.zeros((3, 2), "float32")), np.ones((3, 2)))
