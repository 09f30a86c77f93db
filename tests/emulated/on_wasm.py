"""What is compiled for WebAssembly, run by node in the runtime for it. `make test-wasm`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.emulated import machines
from tests.emulated.checks import build, check_model, check_random_model, check_vector_math
from tests.fuzz.onnx.ops import generators
from tilewright import IRModule, relay

MODELS = ("resnet_small", "mobilenet_small", "bert_small", "resnet_small_int8", "light_squeezenet_random")


@pytest.mark.parametrize("seed", [2000, 2001, 2002])
@pytest.mark.parametrize("name", sorted(generators))
def test_random_models(name: str, seed: int) -> None:
    check_random_model(name, seed, machines.WASM["one thread"])


@pytest.mark.parametrize("machine", machines.WASM)
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, machine: str, tmp_path: Path) -> None:
    check_model(name, machines.WASM[machine], tmp_path)


@pytest.mark.parametrize("name", ["exp", "tanh", "erf"])
def test_vector_math(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    x = np.concatenate([np.array([0, np.inf, -np.inf, np.nan], "float32"), rng.normal(0, 4, 5001).astype("float32")])
    check_vector_math(name, x, machines.WASM["one thread"], tmp_path)


def test_float16(tmp_path: Path) -> None:
    """Conversions are functions of our own: all float16 numbers, and float32 numbers near the bounds of float16. Truth values, too."""
    every = np.arange(1 << 16, dtype="uint16").view("float16")
    rng = np.random.default_rng(7)
    wide = (rng.normal(0, 1, 1 << 16) * 2.0 ** rng.integers(-30, 20, 1 << 16)).astype("float32")
    x, y = relay.var("x", shape=every.shape, dtype="float16"), relay.var("y", shape=wide.shape)
    results = relay.Tuple([relay.cast(x, "float32"), relay.cast(x, "bool"), relay.cast(y, "float16")])
    target = machines.WASM["one thread"]
    path = build(IRModule.from_expr(relay.Function([x, y], results)), target, tmp_path / machines.library_name(target))
    got = machines.run(path, {"x": every, "y": wide}, target)
    with np.errstate(over="ignore"):
        want = [every.astype("float32"), every.astype("bool"), wide.astype("float16")]
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)
