"""Convolutions of ResNet-18 on the accelerator: the share of the array's peak that they reach, and seconds to compile and to simulate.

Each layer is compiled without a record, run in the functional and in the cycle-level simulator, and compared with NumPy."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tilewright as tvm
from benchmarks.options import takes_json, write_json
from tilewright import nd, rpc, te, topi, vta
from tilewright.vta.environment import Environment
from tilewright.vta.testing import simulator


class Layer(NamedTuple):
    """A square convolution, and how often the network has it."""

    size: int
    channels: int
    filters: int
    kernel: int
    stride: int
    count: int


LAYERS = [
    Layer(56, 64, 64, 3, 1, 4), Layer(56, 64, 128, 3, 2, 1), Layer(56, 64, 128, 1, 2, 1), Layer(28, 128, 128, 3, 1, 3),
    Layer(28, 128, 256, 3, 2, 1), Layer(28, 128, 256, 1, 2, 1), Layer(14, 256, 256, 3, 1, 3), Layer(14, 256, 512, 3, 2, 1),
    Layer(14, 256, 512, 1, 2, 1), Layer(7, 512, 512, 3, 1, 3),
]  # fmt: skip
"""All but the first one, whose three channels are less than a block."""


def built(env: Environment, layer: Layer) -> tuple[Any, list[Any]]:
    """The kernel, with a shift and a range, and its arguments."""
    ic, oc, pad = layer.channels // env.BLOCK_IN, layer.filters // env.BLOCK_OUT, layer.kernel // 2
    data = te.placeholder((1, ic, layer.size, layer.size, env.BATCH, env.BLOCK_IN), env.inp_dtype, "data")
    shape = (oc, ic, layer.kernel, layer.kernel, env.BLOCK_OUT, env.BLOCK_IN)
    weight = te.placeholder(shape, env.wgt_dtype, "weight")
    layout = f"NCHW{env.BATCH}n{env.BLOCK_IN}c"
    with env.target:
        strides, pads = (layer.stride, layer.stride), (pad, pad, pad, pad)
        res = vta.top.conv2d_packed(data, weight, strides, pads, (1, 1), layout, env.acc_dtype)
        res = topi.right_shift(res, te.const(8, env.acc_dtype))
        res = te.compute(res.shape, lambda *i, x=res: te.min(te.max(x(*i), -128), 127), "ranged")
        res = topi.cast(res, env.out_dtype)
        s = vta.top.schedule_conv2d_packed([res])
    args = [data, weight, res]
    return vta.build(s, args, env.target, name="conv2d"), args


def expected(x: Any, w: Any, layer: Layer, rows: int) -> Any:
    pad = layer.kernel // 2
    around = np.pad(x.astype("int64"), [(0, 0), (0, 0), (pad, pad), (pad, pad), (0, 0), (0, 0)])
    total: Any = 0
    for v in range(layer.kernel):
        for u in range(layer.kernel):
            part = around[:, :, v :: layer.stride, u :: layer.stride][:, :, :rows, :rows]
            total = total + np.einsum("bkyxrc,okdc->boyxrd", part, w[:, :, v, u].astype("int64"), optimize=True)
    return np.clip(total >> 8, -128, 127)


def measured(fields: dict[str, Any], layer: Layer) -> dict[str, Any]:
    """Cycles, products, and seconds of one layer. AssertionError where a simulator is wrong."""
    found: dict[str, Any] = {"layer": list(layer)}
    rng = np.random.default_rng(0)
    for target in ("sim", "tsim"):
        with Environment({**fields, "TARGET": target}) as env:
            vta.reconfig_runtime(rpc.LocalSession())
            begin = time.perf_counter()
            f, args = built(env, layer)
            found["compile"] = time.perf_counter() - begin
            shapes = [[int(n) for n in t.shape] for t in args]
            if target == "sim":
                x, w = (rng.integers(-128, 128, shape).astype("int8") for shape in shapes[:2])
                right = expected(x, w, layer, shapes[2][2])
            device = tvm.ext_dev(0)
            out = nd.empty(shapes[2], env.out_dtype, device)
            arrays = [nd.array(a, device) for a in (x, w)]
            simulator.clear_stats()
            begin = time.perf_counter()
            f(*arrays, out)
            found[target] = time.perf_counter() - begin
            assert (out.numpy() == right).all(), f"{target}: {layer}"
            found |= {"cycles": simulator.stats().get("cycle_count", 0)}
            steps = int(np.prod(shapes[2][:4])) * shapes[0][1] * layer.kernel**2
    return {**found, "steps": steps, "share": steps / found["cycles"]}


def main(argv: list[str] | None = None) -> int:
    """Prints a line for each layer, and the whole."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks vta_layers", description=__doc__)
    parser.add_argument("--config", type=Path, help="a file of JSON fields; default: the classic configuration")
    takes_json(parser)
    options = parser.parse_args(argv)
    fields = json.loads(options.config.read_text()) if options.config is not None else {}
    print(
        f"{'size channels filters kernel stride':<38}{'count':>6}{'cycles':>10}{'share':>8}{'compile s':>11}{'sim s':>8}{'tsim s':>8}"
    )
    results = []
    for layer in LAYERS:
        r = measured(fields, layer)
        results.append(r)
        what = f"{layer.size:>4}{layer.channels:>9}{layer.filters:>8}{layer.kernel:>7}{layer.stride:>7}"
        times = f"{r['compile']:>11.2f}{r['sim']:>8.3f}{r['tsim']:>8.3f}"
        print(f"{what:<38}{layer.count:>6}{r['cycles']:>10}{r['share']:>8.3f}{times}", flush=True)
    count = {
        n: sum([r[n] * layer.count for r, layer in zip(results, LAYERS, strict=True)])
        for n in ("steps", "cycles", "sim", "tsim")
    }
    compiled = sum([r["compile"] for r in results])
    print(
        f"whole: {count['cycles']} cycles, {count['steps'] / count['cycles']:.3f} of the peak; {compiled:.1f} s to compile,"
        f" {count['sim']:.2f} s functional, {count['tsim']:.2f} s by cycles"
    )
    write_json(options, {"layers": results, "whole": count})
    return 0
