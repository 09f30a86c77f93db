"""Instructions of Arm's DSP extension in C: portable functions where the compiler has none, without warnings."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, topi
from tilewright.codegen import interp
from tilewright.runtime.linking.c_source import compiler_command, include_folder
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.target import Target
from tilewright.tir.tensor_intrin.arm_dsp import smlad, sxtb16
from tilewright.topi.nn.paired_conv import paired_weights

M7 = "c -mtriple=thumbv7em-unknown-none-eabihf -mcpu=cortex-m7"


def words(count: int, seed: int) -> np.ndarray:
    """Random words, and those with extreme halves and bytes."""
    random = np.random.default_rng(seed).integers(-(1 << 31), 1 << 31, count)
    edges = [-(1 << 31), (1 << 31) - 1, -1, 0, 0x7FFF8000, -0x7FFF8000, 0x7F80807F, -32768 << 16 | 0x8000]
    return np.concatenate([random, np.array(edges)]).astype(np.int64).astype(np.int32)


def test_portable_functions() -> None:
    n = 32
    a, b, c = (te.placeholder((n,), "int32", name) for name in "abc")
    outs = [
        te.compute((n,), lambda i: smlad(a(i), b(i), c(i)), name="pairs"),
        *[
            te.compute((n,), lambda i, r=r: sxtb16(tvm.tir.reinterpret("uint32", a[i]), r), name=f"bytes{r}")
            for r in (0, 8)
        ],
        *[
            te.compute(
                (n,), lambda i, k=k: tvm.tir.call_llvm_pure_intrin("int32", f"llvm.arm.{k}", a[i], b[i], c[i]), name=k
            )
            for k in ("smlabb", "smlatt")
        ],
    ]
    func = te.create_prim_func([a, b, c, *outs])
    given = [words(n - 8, seed) for seed in range(3)]
    wanted, found = ([np.zeros(n, np.int32) for _ in outs] for _ in range(2))
    interp.run(func, [*given, *wanted])
    arrays = [tvm.nd.array(x) for x in (*given, *found)]
    tvm.build(func, target="c")(*arrays)
    for w, f in zip(wanted, arrays[3:], strict=True):
        np.testing.assert_array_equal(f.numpy(), w)


def kernels() -> list[str]:
    """C texts of a convolution, a depthwise one and a dense layer of bytes for a Cortex-M7."""
    x, row = te.placeholder((1, 6, 7, 8), "int8", "x"), te.placeholder((1, 24), "int8", "row")
    packed = paired_weights(np.zeros((3, 3, 8, 4), np.int8), 1, False)
    w, deep = (te.placeholder(s, "int8", "w") for s in (packed.shape, (2, 3, 3, 4)))
    rows = te.placeholder((2, 6, 5, 4), "int8", "rows")
    texts = []
    for given, made in (
        ([x, w], lambda d, v: topi.nn.conv2d_pairs(d, v, (1, 1), (1, 1, 1, 1))),
        ([x, deep], lambda d, v: topi.nn.depthwise_conv2d_pairs(d, v, (1, 1), (1, 1, 1, 1))),
        ([row, rows], topi.nn.dense_pairs),
    ):
        plan = KernelPlan(Target(M7))
        with plan:
            func = te.create_prim_func([*given, made(*given)])
        texts.append(tvm.build(schedule_kernel(func, Target(M7), plan), target=M7).get_source("c"))
    return texts


@pytest.mark.parametrize("compiler", ["host", "zig"])
def test_kernels_have_no_warnings(compiler: str, tmp_path: Path) -> None:
    how = compiler_command("c") if compiler == "host" else compiler_command("c", Target(M7).triple)
    machine = [] if compiler == "host" else ["-mcpu=cortex_m7+fp_armv8d16", "-ffreestanding"]
    for k, text in enumerate(kernels()):
        assert "tw_smla" in text and "tw_sxtb16" in text
        (tmp_path / f"kernel{k}.c").write_text(text)
        flags = [
            "-std=c99",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            "-Wno-unused-parameter",
            f"-I{include_folder()}",
        ]
        command = [*how, *machine, *flags, "-c", str(tmp_path / f"kernel{k}.c"), "-o", str(tmp_path / "kernel.o")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
