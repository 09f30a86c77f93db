"""Operators of `vta.top`: results, tiles that are chosen, and what they refuse."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import autotvm, nd, rpc, te, topi, vta
from tilewright.support.errors import TVMError
from tilewright.vta.environment import Environment
from tilewright.vta.testing import simulator
from tilewright.vta.top.tiles import Problem, choose

DEFAULT: dict[str, Any] = {"TARGET": "tsim"}


def requantised(env: Environment, res: Any, bias: Any) -> Any:
    """Bias, shift, range, cast."""
    res = topi.add(res, bias)
    res = topi.right_shift(res, te.const(8, env.acc_dtype))
    res = te.compute(res.shape, lambda *i, x=res: te.max(x(*i), te.const(-128, env.acc_dtype)), "low")
    res = te.compute(res.shape, lambda *i, x=res: te.min(x(*i), te.const(127, env.acc_dtype)), "high")
    return topi.cast(res, env.out_dtype)


def run(env: Environment, f: Any, arrays: list[Any], shape: list[int]) -> Any:
    vta.reconfig_runtime(rpc.LocalSession())
    device = tvm.ext_dev(0)
    out = nd.empty(shape, env.out_dtype, device)
    f(*[nd.array(a, device) for a in arrays], out)
    return out.numpy()


def convolution(
    env: Environment, size: int, channels: int, filters: int, kernel: int, stride: int, pad: int
) -> tuple[int, int]:
    """Builds and checks one; (cycles, products that the array could do in them at most)."""
    ic, oc = channels // env.BLOCK_IN, filters // env.BLOCK_OUT
    data = te.placeholder((1, ic, size, size, env.BATCH, env.BLOCK_IN), env.inp_dtype, "data")
    weight = te.placeholder((oc, ic, kernel, kernel, env.BLOCK_OUT, env.BLOCK_IN), env.wgt_dtype, "weight")
    bias = te.placeholder((1, oc, 1, 1, env.BATCH, env.BLOCK_OUT), env.acc_dtype, "bias")
    layout = f"NCHW{env.BATCH}n{env.BLOCK_IN}c"
    with env.target:
        res = vta.top.conv2d_packed(data, weight, (stride, stride), (pad, pad, pad, pad), (1, 1), layout, env.acc_dtype)
        res = requantised(env, res, bias)
        s = vta.top.schedule_conv2d_packed([res])
    f = vta.build(s, [data, weight, bias, res], env.target, name="conv2d")
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, [int(n) for n in data.shape]).astype("int8")
    w = rng.integers(-128, 128, [int(n) for n in weight.shape]).astype("int8")
    b = rng.integers(-(1 << 12), 1 << 12, [int(n) for n in bias.shape]).astype("int32")
    shape = [int(n) for n in res.shape]
    found = run(env, f, [x, w, b], shape)
    around = np.pad(x.astype("int64"), [(0, 0), (0, 0), (pad, pad), (pad, pad), (0, 0), (0, 0)])
    total = np.zeros(shape, "int64") + b
    rows = shape[2]
    for v in range(kernel):
        for u in range(kernel):
            part = around[:, :, v : v + stride * rows : stride, u : u + stride * rows : stride][:, :, :rows, :rows]
            total += np.einsum("bkyxrc,okdc->boyxrd", part, w[:, :, v, u].astype("int64"))
    np.testing.assert_array_equal(found, np.clip(total >> 8, -128, 127))
    cycles = simulator.stats()["cycle_count"]
    return cycles, int(np.prod(shape[:4])) * ic * kernel * kernel


@pytest.mark.parametrize(
    "layer",
    [
        (14, 64, 64, 3, 1, 1),
        (14, 64, 128, 3, 2, 1),
        (7, 128, 64, 1, 1, 0),
        (12, 32, 32, 5, 1, 2),
        (13, 128, 64, 1, 2, 1),
    ],
    ids=str,
)
def test_convolutions(layer: tuple[int, ...], caplog: pytest.LogCaptureFixture) -> None:
    """Nobody is warned of missing records: the tiles are those of the search."""
    with Environment(DEFAULT) as env:
        cycles, steps = convolution(env, *layer)
        assert steps < cycles < 4 * steps
    assert not caplog.text


@pytest.mark.parametrize(
    "fields",
    [
        {"BLOCK_IN": 8, "BLOCK_OUT": 32, "ACC_BUFF_SIZE": 128 * 700},
        {"LOG_BATCH": 1, "BLOCK": 4},
        {"BLOCK": 32, "INP_BUFF_SIZE": 32 * 300, "WGT_BUFF_SIZE": 1024 * 20, "ACC_BUFF_SIZE": 128 * 200},
    ],
    ids=["tall", "batch", "small"],
)
def test_convolutions_on_other_accelerators(fields: dict[str, int]) -> None:
    with Environment({**DEFAULT, **fields}) as env:
        convolution(env, 8, 64, 64, 3, 1, 1)


def test_a_layer_of_a_network_keeps_the_array_busy() -> None:
    """3 x 3, 128 channels, 28 x 28, at the default configuration."""
    with Environment(DEFAULT) as env:
        cycles, steps = convolution(env, 28, 128, 128, 3, 1, 1)
        assert steps / cycles > 0.9


def test_grouped_convolutions() -> None:
    """Two groups of two blocks of inputs and of outputs each."""
    with Environment(DEFAULT) as env:
        data = te.placeholder((1, 4, 6, 6, 1, 16), env.inp_dtype, "data")
        weight = te.placeholder((4, 2, 3, 3, 16, 16), env.wgt_dtype, "weight")
        bias = te.placeholder((1, 4, 1, 1, 1, 16), env.acc_dtype, "bias")
        with env.target:
            sums = vta.top.group_conv2d_packed(data, weight, (1, 1), (1, 1), (1, 1), 2, env.acc_dtype)
            res = requantised(env, sums, bias)
            s = vta.top.schedule_group_conv2d_packed([res])
            with pytest.raises(
                ValueError, match="weights of 4 x 2 blocks in 4 groups, with blocks of 16 inputs, do not fit"
            ):
                vta.top.group_conv2d_packed(data, weight, (1, 1), (1, 1), (1, 1), 4, env.acc_dtype)
        f = vta.build(s, [data, weight, bias, res], env.target)
        rng = np.random.default_rng(1)
        x, w = (rng.integers(-128, 128, n).astype("int8") for n in ((1, 4, 6, 6, 1, 16), (4, 2, 3, 3, 16, 16)))
        b = rng.integers(-999, 999, (1, 4, 1, 1, 1, 16)).astype("int32")
        found = run(env, f, [x, w, b], [1, 4, 6, 6, 1, 16])
        around = np.pad(x.astype("int64"), [(0, 0), (0, 0), (1, 1), (1, 1), (0, 0), (0, 0)])
        total = np.zeros(found.shape, "int64")
        for group in range(2):
            part = slice(2 * group, 2 * group + 2)
            for v in range(3):
                for u in range(3):
                    there = around[:, part, v : v + 6, u : u + 6]
                    total[:, part] += np.einsum("bkyxrc,okdc->boyxrd", there, w[part, :, v, u].astype("int64"))
        np.testing.assert_array_equal(found, np.clip((total + b) >> 8, -128, 127))


def test_dense_layers() -> None:
    with Environment(DEFAULT) as env:
        data = te.placeholder((16, 16, env.BATCH, env.BLOCK_IN), env.inp_dtype, "data")
        weight = te.placeholder((16, 16, env.BLOCK_OUT, env.BLOCK_IN), env.wgt_dtype, "weight")
        bias = te.placeholder((1, 16, env.BATCH, env.BLOCK_OUT), env.acc_dtype, "bias")
        with env.target:
            res = requantised(env, vta.top.dense_packed(data, weight, None, env.acc_dtype), bias)
            s = vta.top.schedule_dense_packed([res])
        f = vta.build(s, [data, weight, bias, res], env.target)
        rng = np.random.default_rng(1)
        x, w = (rng.integers(-128, 128, (16, 16, *e)).astype("int8") for e in ((1, 16), (16, 16)))
        b = rng.integers(-999, 999, (1, 16, 1, 16)).astype("int32")
        found = run(env, f, [x, w, b], [16, 16, 1, 16])
        total = np.einsum("bkrc,okdc->bord", x.astype("int64"), w.astype("int64")) + b
        np.testing.assert_array_equal(found, np.clip(total >> 8, -128, 127))


@autotvm.template("tests.vta.conv2d")
def template(size: int, channels: int, filters: int) -> Any:
    env = vta.get_env()
    ic, oc = channels // env.BLOCK_IN, filters // env.BLOCK_OUT
    data = te.placeholder((1, ic, size, size, env.BATCH, env.BLOCK_IN), env.inp_dtype, "data")
    weight = te.placeholder((oc, ic, 3, 3, env.BLOCK_OUT, env.BLOCK_IN), env.wgt_dtype, "weight")
    res = vta.top.conv2d_packed(
        data, weight, (1, 1), (1, 1, 1, 1), (1, 1), f"NCHW{env.BATCH}n{env.BLOCK_IN}c", env.acc_dtype
    )
    res = topi.cast(topi.right_shift(res, te.const(8, env.acc_dtype)), env.out_dtype)
    return vta.top.schedule_conv2d_packed([res]), [data, weight, res]


def test_knobs() -> None:
    """Each configuration of a template's space computes the same, or does not fit."""
    with Environment(DEFAULT) as env:
        task = autotvm.task.create("tests.vta.conv2d", args=(12, 64, 64), target=env.target)
        assert set(task.config_space.space_map) == {"tile_h", "tile_ci", "tile_co", "oc_nthread", "h_nthread", "outer"}
        rng = np.random.default_rng(5)
        x, w = (rng.integers(-128, 128, n).astype("int8") for n in ((1, 4, 12, 12, 1, 16), (4, 4, 3, 3, 16, 16)))
        results, times = [], set()
        for n in range(3, len(task.config_space), max(len(task.config_space) // 12, 1)):
            try:
                with env.target:
                    s, args = task.instantiate(task.config_space.get(n))
                f = vta.build(s, args, env.target)
            except TVMError as error:
                assert "are missing; use smaller tiles" in str(error)
                continue
            results.append(run(env, f, [x, w], [1, 4, 12, 12, 1, 16]))
            times.add(simulator.stats()["cycle_count"])
        assert len(results) > 4 and len(times) > 3
        assert all([(r == results[0]).all() for r in results])


def test_the_choice_of_tiles() -> None:
    config = Environment({}).configuration
    p = Problem(1, 8, 4, 28, 28, (3, 3), (1, 1), 30)
    best = choose(p, config)
    assert all([n <= config.depth(m) for m, n in best.uses(p).items()])
    assert best.out_threads * best.row_threads == 2


def test_tiles_of_columns_and_of_taps() -> None:
    """Where a row does not fit, and where the kernel offsets of a block do not."""
    fields = {"BLOCK": 16, "INP_BUFF_SIZE": 16 * 50, "ACC_BUFF_SIZE": 64 * 20, "WGT_BUFF_SIZE": 256 * 4}
    config, p = Environment(fields).configuration, Problem(1, 1, 1, 30, 30, (3, 3), (1, 1), 32)
    found = choose(p, config)
    assert 0 < found.columns < 30 and found.by_offset
    assert all([n <= config.depth(m) for m, n in found.uses(p).items()])


def test_no_tile_fits() -> None:
    config = Environment({"BLOCK": 16, "INP_BUFF_SIZE": 16 * 8, "ACC_BUFF_SIZE": 64 * 2}).configuration
    with pytest.raises(TVMError) as error:
        choose(Problem(1, 1, 1, 30, 30, (3, 3), (1, 1), 32, extra=2), config)
    assert str(error.value) == (
        "no tile fits into the accelerator: one result of one block needs 144 bytes of inp, which has 128 (16 are missing) and 192"
        " bytes of acc, which has 128 (64 are missing)"
    )


def test_what_they_refuse() -> None:
    env = vta.get_env()
    data = te.placeholder((1, 2, 6, 6, 1, 16), "int8", "data")
    weight = te.placeholder((4, 2, 3, 3, 16, 16), "int8", "weight")
    with env.target:
        with pytest.raises(TVMError, match="conv2d_packed takes packed layouts, such as NCHW1n16c, not NCHW"):
            vta.top.conv2d_packed(data, weight, (1, 1), (1, 1), (1, 1), "NCHW", "int32")
        with pytest.raises(TVMError, match="takes kernels without dilation"):
            vta.top.conv2d_packed(data, weight, (1, 1), (1, 1), (2, 2), "NCHW1n16c", "int32")
        alone = vta.top.conv2d_packed(data, weight, (1, 1), (1, 1), (1, 1), "NCHW1n16c", "int32")
        with pytest.raises(TVMError, match="at least a cast to int8 after it"):
            vta.top.schedule_conv2d_packed([alone])


def test_tuning_by_cycles(tmp_path: Path) -> None:
    """AutoTVM builds and measures in processes of its own; the clock is that of the board."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "vta_config.json").write_text('{"TARGET": "tsim"}')
    command = [sys.executable, "-m", "tilewright.as_tvm", str(Path(__file__).parent / "tune.py"), str(tmp_path / "log")]
    environment = {**os.environ, "VTA_HW_PATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    words = done.stdout.splitlines()[-1].split()
    cycles = [int(c) for c in words[3:]]
    # 14 x 14 results of 4 x 4 blocks and nine kernel offsets.
    assert int(words[1]) == len(cycles) > 4 and min(cycles) > 14 * 14 * 16 * 9 and len(set(cycles)) > 3
