"""What is compiled for 64-bit ARM, run under QEMU: NEON, and SVE as vectors of 128 bits on registers of any width, of 256 and of 512.

`make test-arm`; `python -m tests.fuzz.onnx.graphs --target "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=neoverse-v1"` tries more.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from benchmarks.random_operators import cases, families
from tests.codegen.llvm.every_float import FUNCTIONS
from tests.emulated import machines
from tests.emulated.checks import build, check_model, check_random_model, check_vector_math
from tests.fuzz.onnx.case import Way, compare, compile_and_run
from tests.fuzz.onnx.graphs import attempt, draw
from tests.fuzz.onnx.ops import generators
from tests.relay.transform.precision.test_byte_products import random_batch, random_conv2d, random_dense
from tilewright import IRModule, relay
from tilewright.relay.op import cards
from tilewright.scheduling.products import attention_pays
from tilewright.target import Target

MODELS = (
    "resnet_small",
    "mobilenet_small",
    "bert_small",
    "gpt2_small",
    "vit_small",
    "resnet_small_int8",
    "mobilenet_small_int8",
    "bert_small_int8",
    "light_squeezenet_random",
    "ppocr_cls",
)
MOST_FLOPS = 2e7
"""Work of a random convolution or product that is emulated in moments."""

on_each = pytest.mark.parametrize("machine", machines.TARGETS)


@on_each
@pytest.mark.parametrize("name", sorted(generators))
def test_random_models(name: str, machine: str) -> None:
    for seed in range(3):
        check_random_model(name, 2000 + seed, machines.TARGETS[machine])


@on_each
@pytest.mark.parametrize("kind", ["gemm", "conv"])
def test_random_products(kind: str, machine: str) -> None:
    indices = [i for i in range(200) if families.draw(kind, 9, i).flops <= MOST_FLOPS][:25]
    for index in indices:
        case = families.draw(kind, 9, index)
        given = cases.arrays(case, index)
        model = cases.onnx_model(case, given)
        inputs = {i.name: given[i.name] for i in model.graph.input}
        want = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, inputs)
        got = compile_and_run(model, inputs, Way(opt_level=3, target=machines.TARGETS[machine]))
        try:
            compare(got, want, "float32")
        except AssertionError as error:
            raise AssertionError(f"{case}: {error}") from None


@on_each
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, machine: str, tmp_path: Path) -> None:
    check_model(name, machines.TARGETS[machine], tmp_path)


@on_each
@pytest.mark.parametrize("name", ("resnet_small", "bert_small"))
def test_models_through_c(name: str, machine: str, tmp_path: Path) -> None:
    check_model(name, machines.TARGETS[machine].replace("llvm", "c", 1), tmp_path)


@on_each
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name in cards()])
def test_vector_math(name: str, machine: str, tmp_path: Path) -> None:
    """One unit in the last place over all exponents, NaN, infinities, zeros and denormals."""
    rng = np.random.default_rng(7)
    odd = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-45, -1e-45, 1e-39, 3.4e38], "float32")
    some = rng.integers(0, 1 << 32, 1 << 15, np.uint32).view("float32")
    x = np.concatenate([odd, some, rng.normal(0, 4, 5001).astype("float32")])
    check_vector_math(name, x, machines.TARGETS[machine], tmp_path)


@on_each
def test_half_precision(machine: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    x, w = relay.var("x", shape=(14, 48)), rng.standard_normal((40, 48)).astype("float32")
    body = relay.nn.softmax(relay.nn.relu(relay.nn.dense(x, relay.const(w))))
    given = rng.standard_normal((14, 48)).astype("float32")
    product = np.maximum(given @ w.T, 0)
    exact = np.exp(product - product.max(1, keepdims=True))
    exact /= exact.sum(1, keepdims=True)
    for dtype, bound in (("float16", 2e-2), ("bfloat16", 0.15)):
        mod = relay.transform.ToMixedPrecision(dtype)(
            relay.transform.InferType()(IRModule.from_expr(relay.Function([x], body)))
        )
        path = build(mod, machines.TARGETS[machine], tmp_path / f"{dtype}.so")
        (got,) = machines.run(path, {"x": given}, machines.TARGETS[machine])
        assert np.abs(got.astype("float32") - exact).max() <= bound * exact.max()


def test_mathematics_of_the_c_library(tmp_path: Path) -> None:
    """The runner itself calls none of it."""
    x = relay.var("x", shape=(5,), dtype="float64")
    path = build(IRModule.from_expr(relay.Function([x], relay.exp(x))), machines.TARGETS["NEON"], tmp_path / "m.so")
    given = np.linspace(-2, 2, 5)
    (got,) = machines.run(path, {"x": given}, machines.TARGETS["NEON"])
    np.testing.assert_allclose(got, np.exp(given), rtol=1e-15)


@on_each
@pytest.mark.parametrize("make", [random_conv2d, random_dense, random_batch])
def test_quantised(make: Callable[[int], tuple[Any, np.ndarray]], machine: str, tmp_path: Path) -> None:
    """To the bit of the operators' references."""
    for seed in range(12):
        function, data = make(seed)
        mod = relay.transform.InferType()(IRModule.from_expr(function))
        wanted = relay.create_executor("debug", mod=mod).evaluate()(data).numpy()
        path = build(mod, machines.TARGETS[machine], tmp_path / f"{seed}.so")
        (got,) = machines.run(path, {"x": data}, machines.TARGETS[machine])
        np.testing.assert_array_equal(got, wanted, f"seed {seed}")


@on_each
def test_attention_in_blocks(machine: str, tmp_path: Path) -> None:
    """With a second cache that its scores fill, whatever the processor's is."""
    heads, n, m, d = 2, 300, 450, 24
    q, k, v = (relay.var(name, shape=(heads, size, d)) for name, size in (("q", n), ("k", m), ("v", m)))
    scores = relay.nn.batch_matmul(q, k) * relay.const(0.2)
    body = relay.nn.batch_matmul(relay.nn.softmax(scores), v, transpose_b=False)
    target = machines.TARGETS[machine] + " -l2-cache-bytes=524288"
    assert attention_pays(heads, n, m, Target(target).cpu)
    rng = np.random.default_rng(0)
    given = {
        name: rng.standard_normal((heads, size, d)).astype("float32") for name, size in (("q", n), ("k", m), ("v", m))
    }
    (got,) = machines.run(build(IRModule.from_expr(body), target, tmp_path / "m.so"), given, target)
    weights = np.exp(given["q"] @ given["k"].swapaxes(1, 2) * 0.2)
    np.testing.assert_allclose(got, weights / weights.sum(-1, keepdims=True) @ given["v"], rtol=1e-3, atol=1e-5)


def relu(machine: str, path: Path) -> Path:
    x = relay.var("x", shape=(4, 64))
    return build(IRModule.from_expr(relay.Function([x], relay.nn.relu(x))), machines.TARGETS[machine], path)


def test_machines_that_lack_something(tmp_path: Path) -> None:
    x = {"x": np.ones((4, 64), "float32")}
    library = relu("SVE of 256 bits", tmp_path / "m.so")
    qemu = machines.emulator(Target(machines.TARGETS["NEON"]))
    assert qemu is not None
    for cpu, missing in (("cortex-a72", "bf16, dotprod, fullfp16, i8mm, sve, sve256"), ("max,sve-max-vq=4", "sve256")):
        with pytest.raises(machines.EmulationError) as caught:
            machines.run(library, x, machines.TARGETS["SVE of 256 bits"], [*qemu[:-1], cpu])
        assert str(caught.value) == (
            f"RuntimeError: this library was compiled for CPU `neoverse-v1`, but this machine lacks the features: {missing};"
            " compile the model again for this machine, or for a target without them"
        )
    # What asks for no width runs on all of them.
    library = relu("SVE of any width", tmp_path / "any.so")
    for width in (1, 2, 4, 16):
        machines.run(library, x, machines.TARGETS["SVE of any width"], [*qemu[:-1], f"max,sve-max-vq={width}"])


def test_no_reference_is_rare() -> None:
    """Random models that ONNX Runtime cannot run say nothing here."""
    drawn = [draw(2000, name)[1] for name in sorted(generators)]
    refused = [d for d in drawn if attempt(d, Way(opt_level=0, target="llvm")).status == "invalid"]
    assert len(refused) <= len(drawn) // 10
