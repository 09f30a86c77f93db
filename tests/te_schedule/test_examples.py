"""The examples that are written in TE run and reach what they promise."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_matrix_product_climbs() -> None:
    gemm = load("gemm_te")
    # Sizes that tiles do not divide are right too.
    s, args = gemm.write_cached(31, 64, 20)
    import tilewright as tvm

    a, b = np.random.rand(31, 20).astype("float32"), np.random.rand(20, 64).astype("float32")
    c = tvm.nd.array(np.zeros((31, 64), "float32"))
    tvm.build(s, args)(tvm.nd.array(a), tvm.nd.array(b), c)
    np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4)
    rates = gemm.climb(156, 192, 256, budget=0.05)
    assert [name for name, _ in gemm.LADDER] == [n for n in rates if n not in ("NumPy", "peak")]
    # Machines are shared, so the bound is a fraction of what is measured alone (above 85 % of the peak).
    assert rates["write cache"] > 10 * rates["naive"]
    assert rates["write cache"] > 0.3 * rates["peak"]
