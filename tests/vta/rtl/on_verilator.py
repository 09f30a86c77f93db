"""The hardware as a program that Verilator compiles (`make test-rtl`): ResNet-18, its first block in full size, random programs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.vta.networks import network
from tests.vta.random_programs import Board, in_order, outcome, random_program
from tests.vta.rtl.kernels import Launch, run
from tests.vta.rtl.verilated import Verilated, placed
from tilewright import te, topi, vta
from tilewright.ir import IRModule
from tilewright.vta.compiler.listing import kernels_of
from tilewright.vta.config_fields import of_fields
from tilewright.vta.environment import Environment
from tilewright.vta.isa.program import Insn
from tilewright.vta.simulator.native import Simulator

Array = np.ndarray[Any, Any]
TIMED = {"TARGET": "tsim"}


@pytest.fixture(scope="module")
def classic() -> Verilated:
    return Verilated(of_fields(TIMED))


def convolution(
    hardware: Verilated, x: Array, w: Array, stride: int, residual: Array | None = None
) -> tuple[Array, int, int]:
    """A convolution with even padding, a shift and a range, from data (1, channels, size, size): its result, checked against NumPy, and
    cycles of the hardware and of the cycle-level simulator."""
    (filters, channels, k, _), size, pad = w.shape, x.shape[-1], w.shape[-1] // 2
    with Environment(TIMED) as env:
        ic, oc = channels // env.BLOCK_IN, filters // env.BLOCK_OUT
        data = te.placeholder((1, ic, size, size, 1, env.BLOCK_IN), env.inp_dtype, "data")
        weight = te.placeholder((oc, ic, k, k, env.BLOCK_OUT, env.BLOCK_IN), env.wgt_dtype, "weight")
        with env.target:
            res = vta.top.conv2d_packed(data, weight, (stride, stride), (pad,) * 4, (1, 1), "NCHW1n16c", env.acc_dtype)
            args = [data, weight]
            if residual is not None:
                args.append(te.placeholder([int(n) for n in res.shape], env.acc_dtype, "other"))
                res = topi.add(res, args[-1])
            res = topi.right_shift(res, te.const(8, env.acc_dtype))
            clipped = te.compute(res.shape, lambda *i: te.min(te.max(res(*i), 0), 127), "clipped")
            out = topi.cast(clipped, env.out_dtype)
            s = vta.top.schedule_conv2d_packed([out])
        f = vta.build(s, [*args, out], tvm.target.Target("ext_dev", host="llvm"))
    kernel = kernels_of(f.imported_modules[0].get_source("vta"))[0]
    rows = int(out.shape[2])
    given = {
        ("load", "inp"): x.reshape(ic, 16, size, size).transpose(0, 2, 3, 1).astype("int8"),
        ("load", "wgt"): w.reshape(oc, 16, ic, 16, k, k).transpose(0, 2, 4, 5, 1, 3).astype("int8"),
        ("store", "out"): np.zeros((oc, rows, rows, 16), "int8"),
    }  # fmt: skip
    if residual is not None:
        given["load", "acc"] = residual.reshape(oc, 16, rows, rows).transpose(0, 2, 3, 1).astype("int32")
    uses = {a: (kernel.instructions[n].name, kernel.instructions[n].choice("memory")) for n, a in kernel.relocations}
    arrays = [given[uses[a]].tobytes() for a in range(kernel.arguments)]
    memory, program, addresses = placed(hardware.config, kernel, arrays)
    simulated = cycles_of(hardware, bytes(memory), program)
    taken = hardware.run(memory, program)
    at = addresses[next(a for a, use in uses.items() if use == ("store", "out"))]
    found = np.frombuffer(bytes(memory[at : at + oc * rows * rows * 16]), "int8").reshape(oc, rows, rows, 16)
    result = found.transpose(0, 3, 1, 2).reshape(1, filters, rows, rows).astype("int64")
    around = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)]).astype("int64")
    total = np.zeros((filters, rows, rows), "int64") if residual is None else residual[0].astype("int64")
    for v in range(k):
        for u in range(k):
            total = total + np.einsum(
                "cyx,oc->oyx", around[0, :, v::stride, u::stride][:, :rows, :rows], w[:, :, v, u], optimize=True
            )
    np.testing.assert_array_equal(result[0], np.clip(total >> 8, 0, 127))
    return result, taken, simulated


def cycles_of(hardware: Verilated, memory: bytes, program: list[Insn]) -> int:
    """What the cycle-level simulator says of a program whose addresses count from the start of a memory."""
    simulator = Simulator(hardware.config)
    base = simulator.allocate(len(memory))
    simulator.write(base, memory)
    moved = [
        Insn(i.name, {**i.values, "dram_base": i["dram_base"] + base}) if i.name in ("load", "store") else i
        for i in program
    ]
    simulator.run(moved)
    return int(simulator.stats()["cycle_count"])


def test_the_first_block_of_resnet18(classic: Verilated) -> None:
    """Two convolutions of 56 x 56, 64 to 64 channels, 3 x 3, the second one with the residual."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 128, (1, 64, 56, 56))
    first, second = (rng.integers(-32, 32, (64, 64, 3, 3)) for _ in range(2))
    middle, *times = convolution(classic, x, first, 1)
    assert times[0] == pytest.approx(times[1], rel=0.001)
    _, *times = convolution(classic, middle, second, 1, residual=x << 8)
    assert times[0] == pytest.approx(times[1], rel=0.03)


def in_hardware(hardware: Verilated, mod: IRModule) -> list[Launch]:
    """Runs a network of integers in the hardware (`kernels.run`); its cycles are those of the simulator, and are printed."""
    shape = [int(n) for n in mod["main"].params[0].type_annotation.shape]
    data = np.random.default_rng(0).normal(0, 2, shape).astype("float32")
    launches = run(mod, hardware, data)
    for launch in launches:
        print(
            f"{launch.name}: {launch.hardware} cycles, {launch.hardware / launch.simulator - 1:+.2%} of the simulator's"
        )
    whole = [sum([getattr(x, n) for x in launches]) for n in ("hardware", "simulator")]
    print(f"{len(launches)} kernels: {whole[0]} cycles, {whole[0] / whole[1] - 1:+.2%}")
    assert all([x.hardware == pytest.approx(x.simulator, rel=0.03, abs=40) for x in launches])
    assert whole[0] == pytest.approx(whole[1], rel=0.01)
    return launches


def test_a_whole_network(classic: Verilated) -> None:
    """ResNet-18 for small pictures, with all its layers."""
    assert len(in_hardware(classic, network("ResNet-18"))) > 15


def test_convolutions_behind_each_other(classic: Verilated) -> None:
    """Four convolutions for images of 16 x 16 and ten classes: each takes the results of the one before."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 128, (1, 16, 16, 16))
    for filters, kernel, stride in ((32, 3, 1), (32, 3, 2), (64, 3, 2), (16, 1, 1)):
        w = rng.integers(-64, 64, (filters, x.shape[1], kernel, kernel))
        x, taken, simulated = convolution(classic, x, w, stride)
        assert taken == pytest.approx(simulated, rel=0.03)
    assert x.shape == (1, 16, 4, 4) and x.max() > 0


@pytest.mark.parametrize(
    "fields",
    [
        {"BATCH": 2, "BLOCK_IN": 5, "BLOCK_OUT": 3, "INP_BUFF_SIZE": 300, "WGT_BUFF_SIZE": 450, "ACC_BUFF_SIZE": 960, "SRAM_PORTS": 1},
        {"BLOCK_IN": 4, "BLOCK_OUT": 8, "LOG_INP_BUFF_SIZE": 7, "LOG_WGT_BUFF_SIZE": 9, "LOG_ACC_BUFF_SIZE": 10, "DRAM_BYTES": 32},
    ],
    ids=["odd", "wide"],
)  # fmt: skip
def test_random_programs(fields: dict[str, int]) -> None:
    """A hundred programs on one accelerator."""
    config = of_fields({**TIMED, "UOP_BUFF_SIZE": 64, "COMMAND_QUEUE": 8, "TOKEN_QUEUE": 4, **fields})
    hardware, errors = Verilated(config), []
    for seed in range(100):
        rng = random.Random(seed)
        board = Board(config, rng, timed=True)
        program = in_order(random_program(board, 20))
        blocks = {a: bytes(b) for a, b in board.reference.dram.blocks.items()}
        if outcome(board.native.run, program):
            continue
        memory = bytearray(max([a + len(b) for a, b in blocks.items()]))
        for address, block in blocks.items():
            memory[address : address + len(block)] = block
        taken = hardware.run(memory, program)
        for address, block in blocks.items():
            assert board.native.read(address, len(block)) == memory[address : address + len(block)], (
                f"seed {seed}, memory at {address:#x}"
            )
        errors.append(abs(taken / board.native.stats()["cycle_count"] - 1))
    assert len(errors) > 30 and np.mean(errors) < 0.01 and max(errors) < 0.03
