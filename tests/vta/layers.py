"""Random layers with random schedules for random accelerators, beside NumPy: `python -m tests.vta.layers --count 200 --seed 1`."""

from __future__ import annotations

import argparse
import random
import sys
from typing import Any

import numpy as np

import tilewright as tvm
from tilewright import nd, rpc, te, topi, vta
from tilewright.support.errors import TVMError
from tilewright.vta.environment import Environment

SHAPES = [(1, 16, 16), (1, 8, 8), (2, 4, 8), (1, 4, 16), (4, 16, 4), (3, 5, 7), (1, 32, 32)]
WIDTHS = [(8, 8), (8, 8), (16, 8), (8, 16)]


def random_environment(rng: random.Random, target: str = "sim") -> Environment:
    """Memories of at least some elements each; any shape of the array."""
    batch, block_in, block_out = rng.choice(SHAPES)
    inp, wgt = rng.choice(WIDTHS)
    fields = {
        "TARGET": target, "BATCH": batch, "BLOCK_IN": block_in, "BLOCK_OUT": block_out, "INP_WIDTH": inp, "WGT_WIDTH": wgt,
        "INP_BUFF_SIZE": batch * block_in * inp // 8 * rng.choice([200, 700]),
        "WGT_BUFF_SIZE": block_in * block_out * wgt // 8 * rng.choice([40, 150]),
        "ACC_BUFF_SIZE": batch * block_out * 4 * rng.choice([150, 500]),
        "UOP_BUFF_SIZE": 8 * rng.choice([32, 256]), "COHERENT": rng.choice([0, 1]), "TOKEN_QUEUE": rng.choice([4, 512]),
    }  # fmt: skip
    return Environment(fields)


class Layer:
    """A convolution with padding, strides, requantisation and maybe a residual, in packed layout, and its schedule."""

    def __init__(self, env: Environment, rng: random.Random) -> None:
        self.env, self.rng = env, rng
        self.ic, self.oc, self.kernel = rng.randint(1, 3), rng.choice([1, 2, 4]), rng.choice([1, 1, 2, 3])
        self.stride, self.pad = rng.choice([1, 1, 2, 3]), rng.choice([0, 0, 1, 2])
        self.size = rng.randint(max(self.kernel - 2 * self.pad, 1), 9)
        self.out = (self.size + 2 * self.pad - self.kernel) // self.stride + 1
        self.shift, self.high = rng.randint(0, 8), (1 << (env.OUT_WIDTH - 1)) - 1
        self.residual, self.relu = rng.random() < 0.3, rng.random() < 0.5
        self.low = 0 if self.relu else -self.high - 1
        self.data = (1, self.ic, self.size, self.size, env.BATCH, env.BLOCK_IN)
        self.weights = (self.oc, self.ic, self.kernel, self.kernel, env.BLOCK_OUT, env.BLOCK_IN)
        self.outputs = (1, self.oc, self.out, self.out, env.BATCH, env.BLOCK_OUT)

    def schedule(self) -> tuple[Any, list[Any]]:
        env, rng = self.env, self.rng
        dy, dx = (te.reduce_axis((0, self.kernel), n) for n in ("dy", "dx"))
        ko, ki = te.reduce_axis((0, self.ic), "ko"), te.reduce_axis((0, env.BLOCK_IN), "ki")
        data = te.placeholder(self.data, env.inp_dtype, "data")
        weight = te.placeholder(self.weights, env.wgt_dtype, "weight")
        other = te.placeholder(self.outputs, env.acc_dtype, "other")
        data_buf = topi.nn.pad(data, [0, 0, self.pad, self.pad, 0, 0], name="data_buf")
        if not self.pad:
            data_buf = te.compute(self.data, lambda *i: data(*i), "data_buf")
        weight_buf = te.compute(self.weights, lambda *i: weight(*i), "weight_buf")
        st, acc = self.stride, env.acc_dtype
        conv = te.compute(
            self.outputs,
            lambda b, o, y, x, bi, ci: te.sum(
                data_buf[b, ko, y * st + dy, x * st + dx, bi, ki].astype(acc)
                * weight_buf[o, ko, dy, dx, ci, ki].astype(acc),
                axis=[ko, dy, dx, ki],
            ),
            "conv",
        )
        steps = [conv]
        other_buf = None
        if self.residual:
            other_buf = te.compute(self.outputs, lambda *i: other(*i), "other_buf")
            steps.append(te.compute(self.outputs, lambda *i: conv(*i) + other_buf(*i), "summed"))
        steps.append(te.compute(self.outputs, lambda *i, x=steps[-1]: x(*i) >> self.shift, "shifted"))
        steps.append(
            te.compute(self.outputs, lambda *i, x=steps[-1]: te.min(te.max(x(*i), self.low), self.high), "clipped")
        )
        res = te.compute(self.outputs, lambda *i: steps[-1](*i).astype(env.out_dtype), "res")
        s = te.create_schedule(res.op)
        s[data_buf].set_scope(env.inp_scope)
        s[weight_buf].set_scope(env.wgt_scope)
        for stage in [*steps, *([other_buf] if other_buf is not None else [])]:
            s[stage].set_scope(env.acc_scope)
        b, c, y, x, bi, ci = s[res].op.axis
        y_out, y_in = s[res].split(y, rng.choice([n for n in range(1, self.out + 1) if self.out % n == 0]))
        s[res].reorder(c, y_out, b, y_in, x, bi, ci)
        if self.oc > 1 and rng.random() < 0.6:
            thread, c = s[res].split(c, nparts=2)
            s[res].reorder(thread, c)
            s[res].bind(thread, te.thread_axis(rng.choice(["cthread", "vthread"])))
        for stage in [*steps, *([other_buf] if other_buf is not None else [])]:
            s[stage].compute_at(s[res], y_out)
        bo, co, i, j, bi, ci = s[conv].op.axis
        k_out, k_in = s[conv].split(ko, rng.choice([n for n in range(1, self.ic + 1) if self.ic % n == 0]))
        inner = [j, dy, dx, co, i, k_in]
        rng.shuffle(inner)
        s[conv].reorder(bo, k_out, *inner, bi, ci, ki)
        s[data_buf].compute_at(s[conv], k_out)
        s[weight_buf].compute_at(s[conv], k_out)
        s[conv].tensorize(bi, env.gemm)
        return s, [data, weight, *([other] if self.residual else []), res]

    def arrays(self) -> tuple[list[Any], Any]:
        """Inputs, and the result in whole numbers."""
        env, rng = self.env, np.random.default_rng(self.rng.randrange(1 << 30))
        x, w = (
            rng.integers(-(1 << (bits - 1)), 1 << (bits - 1), shape)
            for bits, shape in ((env.INP_WIDTH, self.data), (env.WGT_WIDTH, self.weights))
        )
        padded = np.pad(x, [(0, 0), (0, 0), (self.pad, self.pad), (self.pad, self.pad), (0, 0), (0, 0)])
        total = np.zeros(self.outputs, np.int64)
        for v in range(self.kernel):
            for u in range(self.kernel):
                part = padded[
                    :, :, v : v + self.stride * self.out : self.stride, u : u + self.stride * self.out : self.stride
                ]
                total += np.einsum("bkyxrc,okdc->boyxrd", part[:, :, : self.out, : self.out], w[:, :, v, u])
        inputs = [x, w]
        if self.residual:
            other = rng.integers(-1000, 1000, self.outputs)
            total, inputs = total + other, [*inputs, other]
        return inputs, np.clip(total >> self.shift, self.low, self.high)


def one(seed: int, target: str = "sim") -> str:
    """Builds and runs a random layer; what differs, or how it ended."""
    rng = random.Random(seed)
    with random_environment(rng, target) as env:
        layer = Layer(env, rng)
        schedule, args = layer.schedule()
        try:
            f = vta.build(schedule, args, tvm.target.Target("ext_dev", host="llvm"))
        except TVMError as error:
            if "use smaller tiles" in str(error):
                return "does not fit"
            raise
        vta.reconfig_runtime(rpc.LocalSession())
        inputs, expected = layer.arrays()
        device = tvm.ext_dev(0)
        out = nd.empty(layer.outputs, env.out_dtype, device)
        f(*[nd.array(a.astype(t.dtype), device) for a, t in zip(inputs, args, strict=False)], out)
        return "right" if (out.numpy() == expected).all() else f"seed {seed} differs"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=100)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--target", default="sim")
    given = options.parse_args()
    ends: dict[str, int] = {}
    try:
        for seed in range(given.seed, given.seed + given.count):
            end = one(seed, given.target)
            if "differs" in end:
                print(end)
                return 1
            ends[end] = ends.get(end, 0) + 1
            print(f"\r{sum(ends.values())} of {given.count}", end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print(f"\ninterrupted; go on with --seed {given.seed + sum(ends.values())}", file=sys.stderr)
    print(f"\n{sum(ends.values())} layers from seed {given.seed}: {ends}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
