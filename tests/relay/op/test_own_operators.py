"""Operators that programs make, and what they say of those that are there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.relay_vm.executors import run_both
from tilewright import relay, runtime, target, te, topi
from tilewright.ir import Op, register_op_attr
from tilewright.relay.cards.card import cards
from tilewright.relay.op import op as reg
from tilewright.support.errors import DiagnosticError, TVMError

DATA = np.random.default_rng(0).uniform(0.5, 2, (3, 4)).astype("float32")


def cube_rule(types: Any, attrs: Any) -> relay.Type:
    return types[0]  # type: ignore[no-any-return]


def cube(attrs: Any, inputs: Any, out_type: Any) -> list[Any]:
    x = inputs[0]
    return [te.compute(x.shape, lambda *i: x(*i) * x(*i) * x(*i), name="cube")]


@pytest.fixture
def own(operators_go: None) -> Iterator[Op]:
    name = "test.cube"
    reg.register(name, "x * x * x")
    op = reg.get(name)
    op.set_num_inputs(1)
    op.add_argument("data", "Tensor", "the input")
    op.set_support_level(1)
    op.add_type_rel("test.cube_rel", cube_rule)
    reg.register_pattern(name, reg.OpPattern.ELEMWISE)
    reg.register_stateful(name, False)
    yield op
    for key in ("FTVMCompute", "FTVMStrategy", "FPrimalGradient"):
        op.reset_attr(key)


def build_and_run(f: relay.Function) -> np.ndarray[Any, Any]:
    lib = relay.build(relay.IRModule.from_expr(f), "llvm")
    executor = lib["default"](runtime.cpu(0))
    executor["set_input"](0, runtime.array(DATA))
    executor["run"]()
    return executor["get_output"](0).numpy()  # type: ignore[no-any-return]


def program(op: Op) -> relay.Function:
    x = relay.var("x", shape=(3, 4))
    return relay.Function([x], relay.nn.relu(relay.Call(op, [relay.tanh(x)])))


def test_compute_and_gradient(own: Op) -> None:
    reg.register_compute(own.name, cube)
    assert own.num_inputs == 1 and own.description == "x * x * x" and own.arguments[0][0] == "data"
    want = np.tanh(DATA) ** 3
    np.testing.assert_allclose(build_and_run(program(own)), want, rtol=1e-5)
    np.testing.assert_allclose(run_both(relay.IRModule.from_expr(program(own)), DATA).numpy(), want, rtol=1e-5)

    @reg.register_gradient(own.name)  # type: ignore[untyped-decorator]
    def gradient(call: relay.Call, dy: relay.Expr) -> list[relay.Expr]:
        x = call.args[0]
        return [dy * relay.const(3.0) * x * x]

    x = relay.var("x", shape=(3, 4))
    back = relay.transform.gradient(relay.Function([x], relay.Call(own, [x])), mode="first_order")
    _, grads = run_both(relay.IRModule.from_expr(back), DATA)
    np.testing.assert_allclose(grads[0].numpy(), 3 * DATA**2, rtol=1e-5)


def test_strategy_of_the_target(own: Op) -> None:
    @target.override_native_generic_func("test_cube_strategy")
    def strategy(attrs: Any, inputs: Any, out_type: Any, tgt: Any) -> Any:
        made = reg.OpStrategy()
        made.add_implementation(cube, None, name="plain", plevel=5)
        return made

    @strategy.register("cpu")  # type: ignore[untyped-decorator]
    def strategy_cpu(attrs: Any, inputs: Any, out_type: Any, tgt: Any) -> Any:
        made = reg.OpStrategy()
        made.add_implementation(cube, None, name="low", plevel=1)
        made.add_implementation(lambda a, ins, t: [topi.add(ins[0], 1.0)], None, name="high", plevel=20)
        return made

    reg.register_strategy(own.name, strategy)
    np.testing.assert_allclose(build_and_run(program(own)), np.tanh(DATA) + 1, rtol=1e-5)


def test_another_compute_for_an_operator_that_is_there() -> None:
    op = Op.get("nn.fast_softmax" if "nn.fast_softmax" in cards() else "nn.softmax")
    reg.register_compute(op.name, lambda attrs, inputs, t: [topi.multiply(inputs[0], 2.0)], level=20)
    try:
        x = relay.var("x", shape=(3, 4))
        with relay.transform.PassContext(opt_level=0):
            got = build_and_run(relay.Function([x], relay.Call(op, [x])))
        np.testing.assert_allclose(got, DATA * 2, rtol=1e-6)
    finally:
        op.reset_attr("FTVMCompute")


def test_what_is_missing_is_said(own: Op) -> None:
    with pytest.raises(TVMError, match=r"test.cube has no compute: call register_compute or register_strategy"):
        build_and_run(program(own))
    with pytest.raises(TVMError, match="relay has an operator 'test.cube' already"):
        reg.register("test.cube")
    x = relay.var("x", shape=(3, 4))
    with pytest.raises(DiagnosticError, match=r"test.cube: test.cube takes 1 arguments, but 2 were given"):
        relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x], relay.Call(own, [x, x]))))
    own.add_type_rel("Sideways")
    with pytest.raises(DiagnosticError, match="a type relation must be a function or one of Identity, Broadcast"):
        relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x], relay.Call(own, [x]))))


def test_attributes_of_operators() -> None:
    register_op_attr("tanh", "target.test_compiler", lambda expr: True)
    assert Op.get("tanh").get_attr("target.test_compiler")(None) and Op.get("tanh").has_attr("target.test_compiler")
    Op.get("tanh").reset_attr("target.test_compiler")
    assert Op.get("tanh").get_attr("target.test_compiler") is None
    assert relay.op.get("tanh") is Op.get("tanh")
    x = relay.var("x", shape=(2,))
    assert relay.analysis.alpha_equal(relay.Call(Op.get("tanh"), [x]), relay.tanh(x))
