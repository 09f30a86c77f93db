"""Post-training quantisation: a convolutional network keeps its answers, and runs on integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay.quantize.ranges import by_divergence, by_percentile

DIGITS = load_digits()
IMAGES = (DIGITS.images / 16).astype("float32").reshape(-1, 1, 8, 8)


def network() -> Any:
    """Two convolutions with batch norm and a residual, random but fixed; a classifier fitted on what they give."""
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> Any:
        return relay.const((rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype("float32"))

    def norm(x: Any, n: int) -> Any:
        values = [
            rng.uniform(0.5, 1.5, n),
            rng.standard_normal(n) * 0.1,
            rng.standard_normal(n) * 0.1,
            rng.uniform(0.5, 1.5, n),
        ]
        return relay.nn.batch_norm(x, *[relay.const(v.astype("float32")) for v in values])[0]

    x = relay.var("x", shape=(1, 1, 8, 8))
    a = relay.nn.relu(norm(relay.nn.conv2d(x, weights(16, 1, 3, 3), padding=(1, 1)), 16))
    b = relay.nn.relu(norm(relay.nn.conv2d(a, weights(16, 16, 3, 3), padding=(1, 1)), 16))
    c = relay.nn.relu(relay.add(norm(relay.nn.conv2d(b, weights(16, 16, 3, 3), padding=(1, 1)), 16), a))
    d = relay.nn.batch_flatten(relay.nn.max_pool2d(c, (2, 2), (2, 2)))
    return x, d


def runner(mod: Any) -> Any:
    m = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))

    def run(image: np.ndarray) -> np.ndarray:
        m.set_input("x", image)
        m.run()
        out: np.ndarray = m.get_output(0).numpy()[0]
        return out

    return run


@pytest.fixture(scope="module")
def classifier() -> Any:
    """The network with its last layer fitted by least squares, and its answers in float32."""
    x, features = network()
    run = runner(tvm.IRModule.from_expr(relay.Function([x], features)))
    values = np.stack([run(i[None]) for i in IMAGES])
    train = slice(0, 1000)
    targets = np.eye(10)[DIGITS.target[train]]
    w = np.linalg.solve(values[train].T @ values[train] + 3 * np.eye(values.shape[1]), values[train].T @ targets)
    y = relay.nn.dense(features, relay.const(w.T.astype("float32")))
    return tvm.IRModule.from_expr(relay.Function([x], y)), values[1000:] @ w


MODES = ["global_scale", "max", "percentile", "kl_divergence"]


@pytest.mark.parametrize("mode", MODES)
def test_accuracy_is_kept(classifier: Any, mode: str) -> None:
    mod, real = classifier
    truth = DIGITS.target[1000:1300]
    plain = (real[:300].argmax(1) == truth).mean()
    assert plain > 0.9
    dataset = [{"x": i[None]} for i in IMAGES[:40]]
    with relay.quantize.qconfig(
        calibrate_mode=mode, skip_conv_layers=None, skip_dense_layer=False, weight_scale="channel"
    ):
        quantized = relay.quantize.quantize(mod, dataset=dataset)
    nodes = relay.analysis.post_order(quantized["main"].body)
    products = [e for e in nodes if isinstance(e, relay.Call) and e.op.name in ("nn.conv2d", "nn.dense")]
    assert [str(e.args[1].checked_type.dtype) for e in products] == ["int8"] * 4
    run = runner(quantized)
    answers = np.array([run(i[None]).argmax() for i in IMAGES[1000:1300]])
    assert (answers == truth).mean() > plain - 0.03


@pytest.mark.parametrize("scale", ["power2", "max"])
def test_simulation_computes_the_same_in_float(classifier: Any, scale: str) -> None:
    mod, _ = classifier
    found = []
    for simulate in (False, True):
        with relay.quantize.qconfig(calibrate_mode="max", weight_scale=scale, do_simulation=simulate):
            quantized = relay.quantize.quantize(mod, dataset=[{"x": i[None]} for i in IMAGES[:5]])
        assert ("qnn.dequantize" in quantized.astext()) == simulate
        run = runner(quantized)
        found.append(np.stack([run(i[None]) for i in IMAGES[:20]]))
    assert np.abs(found[0] - found[1]).max() < 0.05


def test_layers_are_left_out_as_configured(classifier: Any) -> None:
    mod, _ = classifier
    body = relay.quantize.prerequisite_optimize(mod)["main"]
    from tilewright.relay.quantize.rewrite import layers

    assert [c.op.name for c in layers(body, relay.quantize.QConfig())] == ["nn.conv2d"] * 2
    assert len(layers(body, relay.quantize.QConfig(skip_conv_layers=[0, 2], skip_dense_layer=False))) == 2


def test_settings_nest_and_are_checked() -> None:
    with relay.quantize.qconfig(nbit_weight=4), relay.quantize.qconfig(global_scale=4.0) as inner:
        assert relay.quantize.current_qconfig() is inner
        assert (inner.nbit_weight, inner.global_scale) == (4, 4.0)
    assert relay.quantize.current_qconfig().nbit_weight == 8
    with pytest.raises(TypeError, match="qconfig has no setting 'bits'; it has nbit_input"):
        relay.quantize.qconfig(bits=4)
    with pytest.raises(ValueError, match="nbit_input must lie in 2 to 8, but is 9"):
        relay.quantize.qconfig(nbit_input=9)
    with pytest.raises(
        ValueError, match="calibrate_mode must be one of global_scale, kl_divergence, percentile, max, but is 'mean'"
    ):
        relay.quantize.qconfig(calibrate_mode="mean")


def test_a_data_set_is_asked_for(classifier: Any) -> None:
    with (
        relay.quantize.qconfig(calibrate_mode="max"),
        pytest.raises(ValueError, match='calibrate_mode="max" needs a data set'),
    ):
        relay.quantize.quantize(classifier[0])


def test_ranges_leave_outliers_out() -> None:
    counts = np.zeros(2048)
    counts[:200] = np.linspace(1000, 1, 200)
    counts[-1] = 1
    assert by_percentile(counts, 128) <= 200
    assert by_divergence(counts, 128) < 1000


@pytest.mark.parametrize(
    "settings",
    [
        {"calibrate_mode": "global_scale", "global_scale": 4.0},
        {"calibrate_mode": "max", "weight_scale": "channel", "skip_conv_layers": None},
        {"calibrate_mode": "kl_divergence", "nbit_input": 6, "skip_dense_layer": False},
    ],
)
def test_the_steps_are_passes(settings: dict[str, Any]) -> None:
    """annotate, calibrate and realize one after another are what quantize does; ranges are measured with rounded weights."""
    x, features = network()
    mod = tvm.IRModule.from_expr(relay.Function([x], features))
    samples = [{"x": IMAGES[k : k + 1]} for k in range(4)]
    with relay.quantize.qconfig(**settings):
        wanted = relay.quantize.quantize(mod, dataset=samples)
        steps = [relay.quantize.annotate(), relay.quantize.calibrate(samples), relay.quantize.realize()]
        rounded = steps[0](relay.quantize.prerequisite_optimize(mod))
        found = tvm.transform.Sequential(steps[1:])(rounded)
    if settings["calibrate_mode"] == "global_scale":
        tvm.ir.assert_structural_equal(found, wanted)
    assert relay.analysis.list_op_freqs(found) == relay.analysis.list_op_freqs(wanted)
    a, b = [relay.create_executor("debug", mod=m).evaluate()(IMAGES[:1]).numpy() for m in (found, wanted)]
    assert np.abs(a - b).max() < 0.03 * np.abs(b).max()
    names = relay.analysis.list_op_freqs(rounded)
    assert names["qnn.quantize"] > 0 and "qnn.conv2d" not in names
    assert relay.quantize.kind2str(relay.quantize.QAnnotateKind.ACTIVATION) == "activation"
    with relay.quantize.qconfig(calibrate_mode="max"), pytest.raises(ValueError, match="needs a data set"):
        relay.quantize.calibrate()(rounded)


def test_partition_marks_where_integers_begin() -> None:
    x, features = network()
    mod = relay.quantize.prerequisite_optimize(tvm.IRModule.from_expr(relay.Function([x], features)))
    with relay.quantize.qconfig(calibrate_mode="max", skip_conv_layers=None):
        parts = relay.quantize.partition()(mod)
        names = relay.analysis.list_op_freqs(parts)
        assert names["annotation.cast_hint"] == names["annotation.stop_fusion"] > 0
        steps = [relay.quantize.annotate(), relay.quantize.calibrate([{"x": IMAGES[:1]}]), relay.quantize.realize()]
        found = tvm.transform.Sequential(steps)(parts)
    assert "int8" in found.astext()
    a, b = [relay.create_executor("debug", mod=m).evaluate()(IMAGES[:1]).numpy() for m in (found, mod)]
    assert np.abs(a - b).max() < 0.1 * np.abs(b).max()


def test_settings_of_classic_programs() -> None:
    x, features = network()
    mod = tvm.IRModule.from_expr(relay.Function([x], features))
    with relay.quantize.qconfig(
        debug_enabled_ops=["nn.dense"], skip_conv_layers=None, dtype_input="int8", calibrate_chunk_by=8
    ):
        assert "int8" not in relay.quantize.quantize(mod).astext()
    with pytest.raises(
        ValueError, match="dtype_activation can only be int32, but is 'int16': products of int8 are added up"
    ):
        relay.quantize.qconfig(dtype_activation="int16")
