"""Rows of any length: one kernel, whose threads read neighbouring memory, and read it once as long as a row fits somewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
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


@pytest.mark.parametrize(("length", "bounds"), [(50257, "1024, 1"), (3072, "128, 5")])
def test_threads_have_registers_for_their_part_of_a_row(length: int, bounds: str) -> None:
    """Compilers are told how many blocks run at once: to make room for more, they keep parts of rows in memory."""
    made = scheduled(rows("softmax", length, 512), Target(H100), KernelPlan(H100))
    text = str(tvm.build(made.mod, target=H100).imported_modules[0].get_source())
    assert f"__launch_bounds__({bounds})" in text


def grouped(channels: int, groups: int, pixels: int, images: int = 1) -> tir.PrimFunc:
    """A group norm, of which a result is read element by element, so that it is not the last block that has groups."""
    x, g = te.placeholder((images, channels, pixels), name="x"), te.placeholder((channels,), name="g")
    return te.create_prim_func([x, g, nn.relu(nn.group_norm(x, g, g, groups))])


def checked(func: Any, plan: KernelPlan) -> str:
    """Runs a kernel's schedule on its threads. Returns the schedule."""
    made = scheduled(func, Target(plan.target), plan)
    assert not plan.unfit() and not plan.fallbacks
    random = np.random.default_rng(0)
    inputs = [random.standard_normal([int(n) for n in func.buffer_map[p].shape]).astype("float32") for p in func.params]
    found = results(as_on_device(made.mod), inputs, check_races=True)[-1]
    np.testing.assert_allclose(found, results(func, inputs)[-1], rtol=1e-4, atol=1e-5)
    return made.mod.script()


def test_groups_are_rows() -> None:
    """Each group of channels has a block of threads, also where the last block has channels only; a thread keeps one mean, not those of all
    groups."""
    text = checked(grouped(12, 3, 20, images=2), KernelPlan("cuda -arch=sm_80"))
    assert 'T.thread_binding(6, thread="blockIdx.x"' in text
    assert 'group_norm_sum = T.alloc_buffer((2, 3), scope="local")' in text and "// 4" not in text


@pytest.mark.parametrize("name", ["group norm", "softmax", "layer norm"])
def test_few_long_rows_are_reduced_apart(name: str) -> None:
    """Parts of each reduction by blocks of their own; what reads the results by all threads."""
    func = grouped(8, 2, 24) if name == "group norm" else rows(name, 64, 2)
    plan = KernelPlan("cuda -arch=sm_80")
    scheduled(func, Target(plan.target), plan)
    form = next(n for n in plan.values() if n.endswith(".form"))
    assert plan.values()[form] == "together"
    apart = KernelPlan(plan.target, {form: "apart"})
    scheduled(func, Target(plan.target), apart)
    parts = {n: 4 for n in apart.values() if n.endswith(".parts")}
    assert len(parts) == 2
    text = checked(func, KernelPlan(plan.target, {form: "apart", **parts}))
    assert text.count('thread="blockIdx.x"') == 5 and "_rf" in text


@pytest.mark.parametrize(
    ("channels", "groups", "pixels", "form"),
    [(320, 4, 4096, "apart"), (320, 32, 4096, "together"), (64, 64, 4096, "together"), (512, 2, 256, "together")],
)
def test_the_choice_of_reductions_apart(channels: int, groups: int, pixels: int, form: str) -> None:
    """Where few multiprocessors would have work for long, and not where kernels more cost more."""
    plan = KernelPlan(H100)
    made = scheduled(grouped(channels, groups, pixels), Target(H100), plan)
    (chosen,) = [v for n, v in plan.values().items() if n.endswith(".form")]
    assert chosen == form and not plan.fallbacks
    reports = kernel_reports(made.mod, H100, compiled=False)
    assert len(reports) == (5 if form == "apart" else 1)
    if form == "apart":
        assert all([r.launch.grid[0] > 100 for r in reports[::2]])
