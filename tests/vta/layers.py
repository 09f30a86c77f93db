"""Random layers with random schedules for random accelerators, beside NumPy: `python -m tests.vta.layers --count 200 --seed 1`.

Each is compiled once, and its program runs in the functional and in the cycle-level simulator. Every --whole-th one also runs through its
host function on a board, and every --rtl-th one, if it is small, in the hardware (Amaranth's simulator, which needs the extra rtl)."""

from __future__ import annotations

import argparse
import random
import sys
from typing import Any

import numpy as np

import tilewright as tvm
from benchmarks.accelerator.tiled_layers import Program, program_of
from tilewright import nd, rpc, te, topi, vta
from tilewright.vta.config_fields import of_fields
from tilewright.vta.configuration import Configuration
from tilewright.vta.environment import Environment
from tilewright.vta.image import UOPS
from tilewright.vta.isa.program import Insn, encode_uops
from tilewright.vta.simulator.native import Simulator

Array = np.ndarray[Any, Any]
SHAPES = [(1, 16, 16), (1, 8, 8), (2, 4, 8), (1, 4, 16), (4, 16, 4), (3, 5, 7), (1, 32, 32)]
WIDTHS = [(8, 8), (8, 8), (16, 8), (8, 16)]


def random_environment(rng: random.Random) -> Environment:
    """Memories of at least some elements each; any shape of the array."""
    batch, block_in, block_out = rng.choice(SHAPES)
    inp, wgt = rng.choice(WIDTHS)
    fields = {
        "TARGET": "sim", "BATCH": batch, "BLOCK_IN": block_in, "BLOCK_OUT": block_out, "INP_WIDTH": inp, "WGT_WIDTH": wgt,
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


LARGEST_ARRAY, MOST_CYCLES = 64, 4000
"""Numbers of the array and cycles of the largest program that runs in the hardware: its simulator takes a second for a thousand cycles."""


class Placed:
    """A program in the memory of a simulator, with its arguments and micro-ops. arrays: by number of a tensor; the last one is the
    result."""

    def __init__(self, program: Program, config: Configuration, arrays: list[Array]) -> None:
        self.board, self.result = Simulator(config), arrays[-1]
        self.blocks: dict[int, bytearray] = {}
        kernel = program.kernel
        places = {n: self._place(arrays[t].tobytes()) for n, t in enumerate(program.tensors)}
        self.at = places[program.tensors.index(len(arrays) - 1)]
        places[UOPS] = self._place(encode_uops(self.board.layout, kernel.uops))
        self.instructions = list(kernel.instructions)
        for n, argument in kernel.relocations:
            i = self.instructions[n]
            self.instructions[n] = Insn(
                i.name, {**i.values, "dram_base": i.values.get("dram_base", 0) + places[argument]}
            )

    def _place(self, data: bytes | bytearray) -> int:
        address = self.board.allocate(len(data))
        self.board.write(address, data)
        self.blocks[address] = bytearray(data)
        return address

    def found(self, data: bytes | bytearray) -> Array:
        return np.frombuffer(bytes(data), self.result.dtype).reshape(self.result.shape)

    def simulated(self) -> Array:
        """The result in the simulator."""
        self.board.run(self.instructions)
        return self.found(self.board.read(self.at, self.result.nbytes))

    def in_hardware(self) -> Array:
        """The result in the hardware."""
        from tilewright.vta.hardware.simulation import Hardware

        hardware = Hardware(self.board.config)
        hardware.dram.blocks = self.blocks
        hardware.run(self.instructions)
        return self.found(self.blocks[self.at])


def on_a_board(schedule: Any, args: list[Any], arrays: list[Array]) -> Array:
    """The result of the host function, on a board of the current environment."""
    f = vta.build(schedule, args, tvm.target.Target("ext_dev", host="llvm"))
    vta.reconfig_runtime(rpc.LocalSession())
    device = tvm.ext_dev(0)
    given = [nd.array(a, device) for a in arrays]
    f(*given)
    return np.asarray(given[-1].numpy())


def one(seed: int, whole: bool = False, rtl: bool = False) -> list[str]:
    """Builds and runs a random layer. whole: through its host function, too; rtl: in the hardware, too, if it is small. Where it was
    right, or one text that tells what differs, or that it does not fit."""
    rng = random.Random(seed)
    with random_environment(rng) as env:
        layer = Layer(env, rng)
        schedule, args = layer.schedule()
        program = program_of(schedule, args, env)
        if program is None:
            return ["does not fit"]
        inputs, expected = layer.arrays()
        arrays = [a.astype(str(t.dtype)) for a, t in zip(inputs, args, strict=False)]
        arrays.append(np.zeros(layer.outputs, env.out_dtype))
        functional, timed = (Placed(program, of_fields({**env.cfg_dict, "TARGET": t}), arrays) for t in ("sim", "tsim"))
        found = {"functional": functional.simulated(), "by cycles": timed.simulated()}
        if whole:
            found["on a board"] = on_a_board(schedule, args, arrays)
        small = env.BATCH * env.BLOCK_IN * env.BLOCK_OUT <= LARGEST_ARRAY
        if rtl and small and timed.board.stats()["cycle_count"] <= MOST_CYCLES:
            found["in hardware"] = timed.in_hardware()
        differs = [name for name, result in found.items() if not (result == expected).all()]
        return [f"seed {seed} differs: {', '.join(differs)}"] if differs else list(found)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=100)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument(
        "--whole", type=int, default=20, metavar="N", help="every N-th one through its host function; 0: none"
    )
    options.add_argument(
        "--rtl", type=int, default=0, metavar="N", help="every N-th one, if small, in the hardware; 0: none"
    )
    given = options.parse_args()
    ends: dict[str, int] = {}
    done = 0
    try:
        for seed in range(given.seed, given.seed + given.count):
            whole, rtl = (n > 0 and seed % n == 0 for n in (given.whole, given.rtl))
            for end in one(seed, whole, rtl):
                if "differs" in end:
                    print(end)
                    return 1
                ends[end] = ends.get(end, 0) + 1
            done += 1
            print(f"\r{done} of {given.count}", end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print(f"\ninterrupted; go on with --seed {given.seed + done}", file=sys.stderr)
    print(f"\n{done} layers from seed {given.seed}: {ends}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
