"""Parallel loops are cut for any number of threads, whatever machine compiles them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import tilewright as tvm
from tests.cli.command import write_model
from tilewright import relay, te, topi
from tilewright.ir import IRModule
from tilewright.node import on
from tilewright.relay.backend.kernels.machine_code import scheduled
from tilewright.relay.backend.planning.plan import make_plan
from tilewright.relay.backend.te_compiler import TECompiler
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.scheduling.cpu.sharing import useful_threads
from tilewright.target import Target
from tilewright.target.cpu import SCHEDULED_THREADS
from tilewright.tir import For, ForKind, PrimFunc
from tilewright.tir.stmt_functor import BufferMutator

ROOT = Path(__file__).resolve().parents[2]
TARGET = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512"


@pytest.mark.parametrize(
    ("work", "target", "threads"),
    [
        ((1 << 15) - 1, "llvm", 1),
        (1 << 15, "llvm", 2),
        (5 << 15, "llvm", 10),
        (1 << 30, "llvm", SCHEDULED_THREADS),
        (1 << 30, "llvm -num-cores=3", 3),
        (1 << 30, "llvm -num-cores=1", 1),
    ],
)
def test_threads_that_work_is_worth(work: int, target: str, threads: int) -> None:
    assert useful_threads(work, Target(target)) == threads


class _Pieces(BufferMutator):
    """The iterations of each parallel loop of a kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[int] = []

    @on(For)
    def _for(self, s: For) -> Any:
        if s.kind is ForKind.PARALLEL:
            self.found.append(int(s.extent))  # type: ignore[call-overload]
        return self.rebuild(s)


def pieces(func: PrimFunc) -> list[int]:
    finder = _Pieces()
    finder.visit(func.body)
    return finder.found


def kernels(body: relay.Expr, target: str) -> list[PrimFunc]:
    """The scheduled kernels of a program."""
    mod = IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
    with tvm.transform.PassContext(opt_level=3):
        optimized, _ = relay.optimize(mod, target)
        compiler = TECompiler(Target(target))
        make_plan(optimized, compiler)
    return [scheduled(k.func, Target(target)) for k in compiler.kernels.values()]


def _constant(*shape: int) -> relay.Expr:
    return relay.const(np.random.default_rng(0).standard_normal(shape, dtype="float32"))


def _data(*shape: int) -> relay.Expr:
    return relay.var("x", shape=shape)


PROGRAMS = {
    "convolution": lambda: relay.nn.conv2d(
        _data(1, 64, 56, 56), _constant(256, 64, 1, 1), kernel_size=(1, 1), channels=256
    ),
    "winograd": lambda: relay.nn.conv2d(
        _data(1, 128, 28, 28), _constant(128, 128, 3, 3), kernel_size=(3, 3), channels=128, padding=1
    ),
    "depthwise": lambda: relay.nn.conv2d(
        _data(1, 32, 112, 112), _constant(32, 1, 3, 3), kernel_size=(3, 3), channels=32, groups=32, padding=1
    ),
    "pooling": lambda: relay.nn.max_pool2d(_data(1, 64, 112, 112), pool_size=(3, 3), strides=(2, 2)),
    "product": lambda: relay.nn.dense(_data(128, 768), _constant(3072, 768)),
    "one row": lambda: relay.nn.dense(_data(1, 768), _constant(50257, 768)),
    "softmax": lambda: relay.nn.softmax(_data(12, 128, 128)),
    "layer norm": lambda: relay.nn.layer_norm(_data(512, 768), _constant(768), _constant(768)),
    "sum of columns": lambda: relay.sum(_data(1000, 4096), axis=0),
    "sum of everything": lambda: relay.sum(_data(1 << 22)),
    "few long sums": lambda: relay.sum(_data(4, 1 << 20), axis=1),
    "addition": lambda: _data(1 << 20) + relay.const(1.0),
    "transpose": lambda: relay.transpose(_data(1024, 1024)),
    "attention": lambda: relay.nn.batch_matmul(
        relay.nn.softmax(relay.nn.batch_matmul(_data(12, 512, 64), _data(12, 512, 64)) * relay.const(0.125)),
        relay.var("v", shape=(12, 64, 512)),
    ),
}


HALF = ("depthwise", "sum of columns")
"""Where 64 threads find 32 pieces: channels that are shared whole, and strips of columns that would be too narrow to read fast."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_sixteen_and_sixty_four_threads_find_work(name: str) -> None:
    """Every parallel loop of kernels with work for them has an iteration for each of 16 threads, the widest one for each of 64."""
    found = [p for func in kernels(PROGRAMS[name](), TARGET) for p in pieces(func)]
    assert found and min(found) >= 16 and max(found) >= (32 if name in HALF else 64), found


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_core_starts_no_threads(name: str) -> None:
    assert [p for func in kernels(PROGRAMS[name](), f"{TARGET} -num-cores=1") for p in pieces(func)] == []


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU alone is the other case")
def test_same_bytes_whatever_cpus_compile_and_whatever_their_hash_seed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model = write_model(
        tmp_path / "m.onnx",
        [
            helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Conv", ["b", "d"], ["c"], group=64, pads=[1, 1, 1, 1]),
            helper.make_node("GlobalAveragePool", ["c"], ["e"]),
            helper.make_node("Flatten", ["e"], ["f"]),
            helper.make_node("Gemm", ["f", "g"], ["h"]),
            helper.make_node("Softmax", ["h"], ["y"]),
        ],
        {"x": [1, 64, 28, 28]},
        ["y"],
        {
            "w": rng.standard_normal((64, 64, 3, 3)),
            "d": rng.standard_normal((64, 1, 3, 3)),
            "g": rng.standard_normal((64, 1000)),
        },
    )
    cpus = sorted(os.sched_getaffinity(0))
    made = []
    for seed, allowed in (("1", cpus[:1]), ("2", cpus)):
        library = tmp_path / seed / "m.so"
        library.parent.mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TILEWRIGHT_CACHE_DIR": str(library.parent / "cache")}
        subprocess.run(
            [sys.executable, "-m", "tilewright", "compile", str(model), "-o", str(library)],
            env=environment, cwd=ROOT, check=True, capture_output=True, timeout=300,
            preexec_fn=lambda allowed=allowed: os.sched_setaffinity(0, allowed),
        )  # fmt: skip
        made.append(library.read_bytes())
    assert made[0] == made[1]


def test_a_part_that_is_surely_empty() -> None:
    """What is left of a dynamic axis behind all of it: its kernel has no iterations to share."""
    n = tvm.tir.SizeVar("n", "int64")
    x = relay.var("x", shape=(2, 3, 4, n))
    parts = relay.split(x, (n,), axis=-1)
    mod = IRModule.from_expr(relay.Function([x], relay.Tuple([relay.negative(parts[0]), relay.negative(parts[1])])))
    given = np.ones((2, 3, 4, 5), "float32")
    whole, rest = relay.create_executor("vm", mod, tvm.cpu(), "llvm -num-cores=4").evaluate()(given)
    assert rest.shape == (2, 3, 4, 0)
    np.testing.assert_array_equal(whole.numpy(), -given)


def test_no_pieces_of_loops_without_iterations() -> None:
    n = tvm.tir.SizeVar("n", "int64")
    x = te.placeholder((2, 3, 4, n), name="x")
    plan = KernelPlan("llvm -num-cores=4")
    with plan:
        func = te.create_prim_func([x, topi.negative(topi.split(x, [n], axis=-1)[1])])
    schedule_kernel(func, plan.target, plan)
    assert plan.space()["T_negative.pieces"] == [1, 2, 6, 24]
