"""Rows of any length: one kernel, whose threads read neighbouring memory, and read it once as long as a row fits somewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.scheduling.gpu.kernels import rms_norm, wide
from tests.slow import all_but
from tests.tensor_intrin.on_devices import as_on_device, results
from tilewright import te, tir, topi
from tilewright.driver.kernel_reports import kernel_reports
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.scheduling.whole_kernel import scheduled
from tilewright.target import Target
from tilewright.topi import nn

ROWS: dict[str, Callable[..., te.Tensor]] = {
    "softmax": lambda x, g: nn.softmax(x),
    "softmax of halves": lambda x, g: topi.cast(nn.softmax(wide(x)), "float16"),
    "layer norm": lambda x, g: nn.layer_norm(x, g, g, -1),
    "rms norm": rms_norm,
}
LENGTHS = (16, 96, 1000, 1001, 4096, 10000, 50257, 100000)
H100 = "cuda -arch=sm_90a -model=h200"


def rows(name: str, length: int, number: int) -> tir.PrimFunc:
    dtype = "float16" if "halves" in name else "float32"
    x, g = te.placeholder((number, length), dtype, name="x"), te.placeholder((length,), dtype, name="g")
    out = ROWS[name](x, g)
    return te.create_prim_func([x, out] if "softmax" in name else [x, g, out])


@pytest.mark.parametrize("length", all_but((16, 1000, 50257), LENGTHS))
@pytest.mark.parametrize("name", ROWS)
def test_one_pass_over_memory(name: str, length: int) -> None:
    plan = KernelPlan(H100)
    made = scheduled(rows(name, length, 512), Target(H100), plan)
    assert not plan.fallbacks
    (report,) = kernel_reports(made.mod, H100, compiled=False)
    reads = [a for a in report.accesses if a.memory == "global" and a.kind == "load" and a.buffer == "x"]
    fits = length * (2 if "halves" in name else 4) <= 227 << 10
    assert len(reads) == (1 if fits else {"rms norm": 2}.get(name, 3))
    # Rows of odd length begin between sectors.
    assert all([a.per_request <= a.ideal + 1 for a in report.accesses if a.memory == "global" and a.buffer != "g"])


@pytest.mark.parametrize(("name", "length"), [("softmax", 72), ("layer norm", 72)])
def test_rows_in_shared_memory(name: str, length: int) -> None:
    func: Any = rows(name, length, 4)
    plan = KernelPlan("cuda -arch=sm_80")
    scheduled(func, Target(plan.target), plan)
    forced = {".x": "shared", ".rows": 1, ".threads": 32}
    given = KernelPlan(plan.target, {n: v for n in plan.values() for end, v in forced.items() if n.endswith(end)})
    lowered = as_on_device(scheduled(func, Target(plan.target), given).mod)
    assert not given.unfit() and "x_shared" in lowered.script()
    random = np.random.default_rng(0)
    inputs = [random.standard_normal([int(n) for n in func.buffer_map[p].shape]).astype("float32") for p in func.params]
    np.testing.assert_allclose(
        results(lowered, inputs, check_races=True)[-1], results(func, inputs)[-1], rtol=1e-4, atol=1e-5
    )
