"""FakeQuantizationToInteger: the integer form is at most a step from the float form, and holds no float operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay.frontend.common.module import is_static
from tilewright.relay.functor import post_order
from tilewright.support.errors import TVMError

qnn = relay.qnn.op
RNG = np.random.default_rng(0)


def data(shape: tuple[int, ...], name: str = "x", scale: float = 0.05, zero: int = 3, dtype: str = "int8") -> Any:
    """A quantised input, seen as float32."""
    x = relay.var(name, shape=shape, dtype=dtype)
    return qnn.dequantize(x, relay.const(scale), relay.const(zero))


def weights(shape: tuple[int, ...], axis: int = 0, several: bool = False) -> Any:
    values = RNG.integers(-127, 128, shape).astype("int8")
    scale = np.linspace(0.01, 0.03, shape[axis], dtype=np.float32) if several else np.float32(0.02)
    return qnn.dequantize(relay.const(values), relay.const(scale), relay.const(0), axis=axis)


def out(y: Any, scale: float = 0.07, zero: int = -2, dtype: str = "int8") -> Any:
    return qnn.quantize(y, relay.const(scale), relay.const(zero), out_dtype=dtype)


def run(mod: Any, args: dict[str, np.ndarray]) -> np.ndarray:
    m = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
    m.set_input(**args)
    m.run()
    found: np.ndarray = m.get_output(0).numpy()
    return found


def image(c: Any, **kw: Any) -> Any:
    return c(data((1, 4, 8, 8)), **kw)


CASES: dict[str, Any] = {
    "conv2d": lambda: relay.nn.conv2d(data((1, 3, 8, 8)), weights((8, 3, 3, 3)), padding=(1, 1)),
    "conv2d per channel": lambda: relay.nn.conv2d(data((1, 3, 8, 8)), weights((8, 3, 3, 3), several=True)),
    "conv2d, bias, relu": lambda: relay.nn.relu(
        relay.nn.bias_add(
            relay.nn.conv2d(data((1, 3, 8, 8)), weights((8, 3, 3, 3), several=True)),
            relay.const(RNG.standard_normal(8).astype("float32")),
        )
    ),
    "conv2d per channel, clip": lambda: relay.clip(
        relay.nn.conv2d(data((1, 3, 8, 8)), weights((8, 3, 3, 3), several=True)), 0.0, 6.0
    ),
    "conv2d per channel, a constant added": lambda: relay.add(
        relay.nn.conv2d(data((1, 3, 8, 8)), weights((8, 3, 3, 3), several=True)),
        relay.const(RNG.standard_normal((8, 1, 1)).astype("float32")),
    ),
    "depthwise, clip": lambda: relay.clip(
        relay.nn.conv2d(data((1, 4, 8, 8), dtype="uint8", zero=120), weights((4, 1, 3, 3)), groups=4), 0.0, 6.0
    ),
    "conv2d NHWC": lambda: relay.nn.conv2d(
        data((1, 8, 8, 3)), weights((3, 3, 3, 8), 3, True), data_layout="NHWC", kernel_layout="HWIO"
    ),
    "conv2d_transpose": lambda: relay.nn.conv2d_transpose(data((1, 3, 5, 5)), weights((3, 2, 2, 2)), strides=(2, 2)),
    "dense": lambda: relay.nn.dense(data((3, 16)), weights((5, 16))),
    "dense with a quantised bias": lambda: relay.nn.bias_add(
        relay.nn.dense(data((3, 16)), weights((5, 16))),
        qnn.dequantize(relay.const(RNG.integers(-900, 900, 5).astype("int32")), relay.const(0.05 * 0.02), relay.const(0)),
    ),
    "batch_matmul": lambda: relay.nn.batch_matmul(data((2, 3, 8)), data((2, 5, 8), "y", 0.02, -7)),
    "add": lambda: relay.add(data((20, 50)), data((20, 50), "y", 0.02, -7)),
    "add, relu": lambda: relay.nn.relu(relay.add(data((20, 50)), data((20, 50), "y", 0.02, -7))),
    "subtract broadcast": lambda: relay.subtract(data((20, 50)), data((50,), "y", 0.02, -7)),
    "multiply": lambda: relay.multiply(data((20, 50)), data((20, 50), "y", 0.02, -7)),
    "scaled": lambda: relay.multiply(data((20, 50)), relay.const(0.5)),
    "max_pool2d": lambda: image(relay.nn.max_pool2d, pool_size=(2, 2), strides=(2, 2), padding=(1, 1)),
    "avg_pool2d": lambda: image(relay.nn.avg_pool2d, pool_size=(2, 2), strides=(2, 2)),
    "global_avg_pool2d": lambda: relay.nn.global_avg_pool2d(data((3, 8, 8, 8))),
    "mean": lambda: relay.mean(data((3, 8, 8, 8)), axis=(2, 3)),
    "reshape, transpose": lambda: relay.transpose(relay.reshape(data((2, 6)), (3, 4)), (1, 0)),
    "pad": lambda: relay.nn.pad(data((2, 6)), ((1, 1), (0, 2))),
    "resize": lambda: image(relay.image.resize2d, size=(16, 16), method="nearest_neighbor", coordinate_transformation_mode="asymmetric"),
    "maximum": lambda: relay.maximum(data((20, 50)), data((20, 50), "y")),
    "split": lambda: relay.split(data((2, 6)), 2, axis=1)[1],
    "concatenate": lambda: relay.concatenate([data((2, 5)), data((2, 3), "y", 0.02, -7)], axis=1),
    "leaky_relu": lambda: relay.nn.leaky_relu(data((20, 50)), alpha=0.1),
    "sigmoid": lambda: relay.sigmoid(data((2, 50))),
    "tanh": lambda: relay.tanh(data((2, 50))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_integers_are_at_most_a_step_away(name: str) -> None:
    x = CASES[name]()
    scale = 0.01 if name in ("sigmoid", "tanh") else 0.07
    body = out(x, scale)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body)))
    whole = relay.transform.FakeQuantizationToInteger(hard_fail=True)(mod)
    kinds = [e.op.name for e in relay.analysis.post_order(whole["main"].body) if isinstance(e, relay.Call)]
    assert "qnn.dequantize" not in kinds
    args = {
        p.name_hint: RNG.integers(-90, 90, p.checked_type.concrete_shape).astype(str(p.checked_type.dtype))
        for p in mod["main"].params
    }
    want, got = run(mod, args).astype(int), run(whole, args).astype(int)
    assert len(np.unique(want)) > 3
    assert np.abs(want - got).max() <= 1
    # Means are rounded twice: in the scale of what they are means of, and in that of the result.
    assert (want == got).mean() >= (0.2 if name in ("mean", "avg_pool2d", "global_avg_pool2d") else 0.9)


def module(body: Any) -> Any:
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body)))


def test_what_has_no_integer_form_stays_or_fails_as_asked() -> None:
    mod = module(out(relay.sin(data((2, 5)))))
    tvm.ir.assert_structural_equal(relay.transform.FakeQuantizationToInteger()(mod), mod)
    with pytest.raises(TVMError, match="a quantised region stays in float32: sin has no integer form"):
        relay.transform.FakeQuantizationToInteger(hard_fail=True)(mod)


def test_softmax_is_converted_on_demand() -> None:
    mod = module(out(relay.nn.softmax(data((2, 5))), 1 / 256, -128))
    tvm.ir.assert_structural_equal(relay.transform.FakeQuantizationToInteger()(mod), mod)
    found = relay.transform.FakeQuantizationToInteger(optional_qnn_ops=["nn.softmax"])(mod)
    assert "qnn.softmax" in found.astext()
    with pytest.raises(ValueError, match=r"optional_qnn_ops may name nn.softmax, but names 'nn.relu'"):
        relay.transform.FakeQuantizationToInteger(optional_qnn_ops=["nn.relu"])


def test_training_leaves_open_ends() -> None:
    mod = module(relay.nn.dense(data((3, 16)), weights((5, 16))))
    tvm.ir.assert_structural_equal(relay.transform.FakeQuantizationToInteger()(mod), mod)
    found = relay.transform.FakeQuantizationToInteger(use_qat=True)(mod)
    assert "qnn.dense" in found.astext()
    args = {"x": RNG.integers(-90, 90, (3, 16)).astype("int8")}
    np.testing.assert_allclose(run(found, args), run(mod, args), rtol=1e-5, atol=1e-5)


def test_dynamic_dimensions() -> None:
    """Dynamic extents are compared, not read."""
    n = tvm.tir.SizeVar("n", "int64")
    x = qnn.dequantize(relay.var("x", shape=(n, 16), dtype="int8"), relay.const(0.05), relay.const(3))
    y = relay.nn.dense(x, weights((5, 16))) + relay.const(RNG.standard_normal((5,)).astype("float32"))
    mod = module(out(relay.multiply(y, relay.const(0.5))))
    found = relay.transform.FakeQuantizationToInteger(hard_fail=True)(mod)
    assert "qnn.dense" in found.astext()
    for count in (1, 3):
        given = RNG.integers(-90, 90, (count, 16)).astype("int8")
        answers = [
            relay.create_executor("vm", m, tvm.cpu(), "llvm").evaluate()(given).numpy().astype(int)
            for m in (mod, found)
        ]
        assert np.abs(answers[0] - answers[1]).max() <= 1


@pytest.fixture
def registered() -> Any:
    """Sets an attribute of operators for one test."""
    made: list[tuple[str, str]] = []

    def register(how: Any, name: str, key: str, rule: Any) -> None:
        how(name, rule)
        made.append((name, key))

    yield register
    for name, key in made:
        relay.op.get(name).reset_attr(key)


def test_programs_say_how_an_operator_is_carried_over(registered: Any) -> None:
    def floor(expr: relay.Call, type_map: Any) -> Any:
        (x,) = expr.args
        t, wanted = type_map[x], type_map[expr]
        assert isinstance(t, tvm.ir.TensorAffineType) and wanted.dtype == "int8" and x.checked_type.dtype == "int8"
        return [
            relay.qnn.op.requantize(x, t.scale, t.zero_point, wanted.scale, wanted.zero_point, out_dtype="int8"),
            wanted,
        ]

    mod = tvm.IRModule.from_expr(out(relay.floor(data((2, 3)))))
    convert = relay.transform.FakeQuantizationToInteger
    assert "floor" in relay.analysis.list_op_freqs(convert()(mod))
    register = relay.transform.fake_quantization_to_integer.register_fake_quantization_to_integer
    registered(register, "floor", "FTVMFakeQuantizationToInteger", floor)
    assert list(relay.analysis.list_op_freqs(convert(hard_fail=True)(mod))) == ["qnn.requantize"]


def test_what_is_registered_goes_first_and_may_be_optional(registered: Any) -> None:
    def refused(expr: relay.Call, type_map: Any) -> Any:
        return None

    def wrong(expr: relay.Call, type_map: Any) -> Any:
        return [expr, type_map]

    mod = tvm.IRModule.from_expr(out(relay.nn.relu(data((2, 3)))))
    convert = relay.transform.FakeQuantizationToInteger
    registered(relay.op.register_fake_quantization_to_integer, "nn.relu", "FTVMFakeQuantizationToInteger", refused)
    with pytest.raises(TVMError, match=r"nn\.relu has no integer form here"):
        convert(hard_fail=True)(mod)
    relay.op.get("nn.relu").reset_attr("FTVMFakeQuantizationToInteger")
    registered(
        relay.op.register_optional_fake_quantization_to_integer,
        "nn.relu",
        "FTVMOptionalFakeQuantizationToInteger",
        wrong,
    )
    assert "maximum" in relay.analysis.list_op_freqs(convert()(mod))
    with pytest.raises(TVMError, match=r"the function registered for nn\.relu .* but returned a dict"):
        convert(optional_qnn_ops=["nn.relu"])(mod)
    with pytest.raises(ValueError, match=r"optional_qnn_ops may name nn\.relu, nn\.softmax, but names 'nn\.lrelu'"):
        convert(optional_qnn_ops=["nn.lrelu"])


def test_tuples_have_the_types_of_their_fields(registered: Any) -> None:
    seen: list[Any] = []

    def stack(expr: relay.Call, type_map: Any) -> Any:
        seen.append(type_map[expr.args[0]])
        return [expr, seen[0].types[0]]

    registered(relay.op.register_fake_quantization_to_integer, "stack", "FTVMFakeQuantizationToInteger", stack)
    mod = tvm.IRModule.from_expr(out(relay.stack([data((2, 3)), data((2, 3), "y")], axis=0)))
    after = relay.transform.FakeQuantizationToInteger(hard_fail=True)(mod)
    assert isinstance(seen[0], tvm.ir.TupleAffineType) and len(seen[0].types) == 2
    assert relay.analysis.list_op_freqs(after) == {"stack": 1, "qnn.requantize": 1}


def test_quantised_operators_become_what_a_program_says_first(registered: Any) -> None:
    def plain(attrs: Any, inputs: Any, types: Any) -> Any:
        return qnn.requantize(relay.reshape(inputs[0], (6,)), *inputs[1:], out_dtype=attrs.out_dtype).astype("int8")

    x = relay.var("x", shape=(6,), dtype="int32")
    mod = tvm.IRModule.from_expr(
        qnn.requantize(x, relay.const(0.5), relay.const(0), relay.const(1.0), relay.const(0), out_dtype="int8")
    )
    assert relay.qnn.transform.Legalize()(mod)["main"].body.op.name == "qnn.requantize"
    registered(relay.qnn.op.register_qnn_legalize, "qnn.requantize", "FTVMQnnLegalize", plain)
    after = relay.qnn.transform.Legalize()(mod)
    assert relay.analysis.list_op_freqs(after) == {"reshape": 1, "qnn.requantize": 1, "cast": 1}


def test_nothing_stays_without_a_type_below_a_call_of_a_loop() -> None:
    """A loop as importers write it: a function that a Let binds, called where the Let stands."""
    numbers = relay.TensorType((4,), "float32")
    i, x = relay.var("i", shape=(), dtype="int32"), relay.var("x", numbers)
    loop = relay.var("loop")

    def turned(y: Any) -> Any:
        return qnn.dequantize(qnn.quantize(y, relay.const(0.05), relay.const(3)), relay.const(0.05), relay.const(3))

    again = turned(relay.nn.relu(turned(x)))
    step = relay.If(relay.less(i, relay.const(3)), loop(relay.add(i, relay.const(1)), again), x)
    called = relay.Call(relay.Let(loop, relay.Function([i, x], step, numbers), loop), [relay.const(0), again])
    before = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], called)))
    after = relay.transform.FakeQuantizationToInteger()(before)
    assert after is not before and "nn.relu" not in str(after)
    found = [e for e in post_order(after["main"]) if not isinstance(e, tvm.ir.Op)]
    assert any(isinstance(e, relay.If) for e in found)
    for e in found:
        assert e.checked_type is not None
    assert not is_static(after)


def test_scales_of_a_size_that_only_a_run_knows_are_not_one() -> None:
    """Rows that are quantised each by a scale of its own, as dynamic quantisation does."""
    rows = relay.var("rows", shape=(relay.Any(), 8), dtype="float32")
    scale = relay.divide(relay.max(relay.abs(rows), axis=1), relay.const(127.0))
    q = qnn.quantize(rows, scale, relay.const(0), axis=0, out_dtype="int8")
    before = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([rows], q)))
    after = relay.transform.FakeQuantizationToInteger()(before)
    assert tvm.ir.structural_equal(before, after)
