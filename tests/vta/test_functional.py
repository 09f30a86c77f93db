"""The functional simulator: what instructions do, and everything that they must not do, beside the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.vta.fuzz import one
from tilewright import nd
from tilewright.runtime import ext_dev
from tilewright.vta.config_fields import of_fields
from tilewright.vta.configuration import Configuration
from tilewright.vta.isa.assembly import assemble
from tilewright.vta.isa.program import Insn, Uop, encode_uops
from tilewright.vta.simulator.native import Simulator, device_function
from tilewright.vta.simulator.order import order_of
from tilewright.vta.simulator.reference import Reference

SMALL = of_fields(
    {"LOG_BLOCK": 2, "LOG_UOP_BUFF_SIZE": 6, "LOG_INP_BUFF_SIZE": 6, "LOG_WGT_BUFF_SIZE": 7, "LOG_ACC_BUFF_SIZE": 8}
)
"""1 x 4 x 4, with 16 inputs, 8 weights, 16 accumulators and 16 micro-ops on the chip."""


def program(text: str, **addresses: int) -> list[Insn]:
    return assemble(text.format(**{name: hex(a) for name, a in addresses.items()})).instructions


def placed(simulator: Simulator, *arrays: Any) -> list[int]:
    found = []
    for array in arrays:
        data = array.tobytes() if isinstance(array, np.ndarray) else array
        found.append(simulator.allocate(len(data)))
        simulator.write(found[-1], data)
    return found


def test_a_matrix_product() -> None:
    c = of_fields({"LOG_BATCH": 1, "BLOCK_IN": 8, "BLOCK_OUT": 4, "ACC_BUFF_SIZE": 320, "WGT_BUFF_SIZE": 320})
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (3, 2, 8), dtype="int8")  # three elements of two rows: a matrix of 2 x 24
    w = rng.integers(-128, 128, (5, 3, 4, 8), dtype="int8")  # 20 outputs by 24 inputs
    simulator = Simulator(c)
    uops = encode_uops(simulator.layout, [Uop(0, 0, 0), Uop(0, 1, 1), Uop(0, 2, 2)])
    px, out, pu = placed(simulator, x, bytes(5 * 8), uops)
    accumulators = []
    for o in range(5):
        [pw] = placed(simulator, w[o])
        simulator.run(
            program(
                "load.uop dram_base={pu} y_size=1 x_size=3\n"
                "load.inp dram_base={px} y_size=1 x_size=3\n"
                "load.wgt dram_base={pw} y_size=1 x_size=3 push_next\n"
                "gemm uop_end=1 iter_out=1 iter_in=1 reset\n"
                "gemm uop_end=3 iter_out=1 iter_in=1 pop_prev\n"
                "alu.shr uop_end=1 iter_out=1 iter_in=1 use_imm imm=7\n"
                "alu.clip uop_end=1 iter_out=1 iter_in=1 use_imm imm=127 push_next\n"
                "store dram_base={out} y_size=1 x_size=1 pop_prev push_prev\n"
                "gemm pop_next\nfinish\n",
                pu=pu, px=px, pw=pw, out=out,
            )
        )  # fmt: skip
        accumulators.append(np.frombuffer(simulator.read(out, 8), "int8").reshape(2, 4))
    matrix, weights = x.transpose(1, 0, 2).reshape(2, 24).astype("int64"), w.transpose(0, 2, 1, 3).reshape(20, 24)
    expected = np.clip(matrix @ weights.T.astype("int64") >> 7, -128, 127)
    np.testing.assert_array_equal(np.concatenate(accumulators, axis=1), expected)
    assert simulator.stats()["gemm_counter"] == 5 * 4 and simulator.stats()["out_store_nbytes"] == 5 * 8


def test_padding_and_strides() -> None:
    simulator = Simulator(SMALL)
    data = np.arange(24, dtype="int32").reshape(6, 4) + 1  # six accumulators; rows of two at a distance of three
    pd, pu, out = placed(simulator, data, bytes(4), bytes(64))
    simulator.run(
        program(
            "load.uop dram_base={pu} y_size=1 x_size=1\n"
            "load.acc dram_base={pd} y_size=2 x_size=2 x_stride=3 y_pad_top=1 x_pad_left=1 x_pad_right=1 pad_min\n"
            "alu.max uop_end=1 iter_out=1 iter_in=12 dst_factor_in=1 use_imm imm=-5 push_next\n"
            "store dram_base={out} y_size=3 x_size=4 x_stride=4 pop_prev\nfinish\n",
            pd=pd, pu=pu, out=out,
        )
    )  # fmt: skip
    expected = np.full((3, 4, 4), -5, "int8")
    expected[1:, 1:3] = data.reshape(2, 3, 4)[:, :2]
    np.testing.assert_array_equal(np.frombuffer(simulator.read(out, 48), "int8").reshape(3, 4, 4), expected)


@pytest.mark.parametrize(
    ("op", "y", "expected"),
    [
        ("min", 3, [-7, 3, 3, -(2**31)]),
        ("max", 3, [3, 3, 100, 3]),
        ("add", -1, [-8, 2, 99, 2**31 - 1]),
        ("shr", 1, [-4, 1, 50, -(2**30)]),
        ("shr", 40, [-1, 0, 0, -1]),
        ("shr", -2, [-28, 12, 400, 0]),
        ("shr", -32, [0, 0, 0, 0]),
        ("mul", 3, [-21, 9, 300, -(2**31)]),
        ("clip", 6, [-7, 3, 6, -7]),
    ],
)
def test_operations(op: str, y: int, expected: list[int]) -> None:
    c = of_fields({"LOG_BLOCK": 2, "LOG_OUT_WIDTH": 5})
    values = np.array([-7, 3, 100, -(2**31)], "int32")
    for use_imm in (0, 1):
        simulator = Simulator(c)
        other = np.full(4, y, "int32")
        pv, pu, out = placed(
            simulator, np.stack([values, other]), encode_uops(simulator.layout, [Uop(0, 1)]), bytes(16)
        )
        word = f"use_imm imm={y}" if use_imm else ""
        simulator.run(
            program(
                "load.uop dram_base={pu} y_size=1 x_size=1\nload.acc dram_base={pv} y_size=1 x_size=2\n"
                f"alu.{op} uop_end=1 iter_out=1 iter_in=1 {word} push_next\n"
                "store dram_base={out} y_size=1 x_size=1 pop_prev\nfinish\n",
                pv=pv, pu=pu, out=out,
            )
        )  # fmt: skip
        assert list(np.frombuffer(simulator.read(out, 16), "int32")) == expected


def both(text: str, config: Configuration = SMALL) -> str:
    """The error of a program, which the simulator and the reference must have in the same words."""
    reference = Reference(config)
    reference.dram.blocks[0x1000] = bytearray(64)
    simulator = Simulator(config)
    assert simulator.allocate(64) == 0x1000
    with pytest.raises((IndexError, ValueError, RuntimeError)) as expected:
        reference.run(program(text))
    with pytest.raises(type(expected.value)) as found:
        simulator.run(program(text))
    assert str(found.value) == str(expected.value)
    return str(found.value)


WRONG = {
    "load.inp sram_base=10 dram_base=0x1000 y_size=2 x_size=4 x_stride=4": "writes inp[17], but inp has 16 elements",
    "load.out dram_base=0x1000 y_size=1 x_size=1": "loads a memory that cannot be loaded",
    "store.acc dram_base=0x1000 y_size=1 x_size=1": "stores a memory that cannot be stored",
    "load.uop dram_base=0x1000 y_size=1 x_size=1 x_pad_left=1": "pads micro-ops, which have no padding",
    "load.wgt dram_base=0x1004 y_size=1 x_size=1": "has an address of wgt that is no multiple of 16",
    "load.inp dram_base=0x1030 y_size=2 x_size=3 x_stride=3": (
        "reads DRAM at 0x103c, 12 bytes, which are not allocated: the allocation below it is 0x1000 to 0x1040"
    ),
    "load.inp dram_base=0x500 y_size=1 x_size=1": "reads DRAM at 0x500, 4 bytes, which are not allocated: nothing is allocated below it",
    "gemm uop_end=1 iter_out=1 iter_in=1": "reads uop[0] in trip (0, 0), micro-op 0, which nothing has written",
    "store dram_base=0x1000 y_size=1 x_size=2": "reads out[0], which nothing has written",
}


@pytest.mark.parametrize("line", WRONG)
def test_what_an_instruction_must_not_do(line: str) -> None:
    assert both(line + "\nfinish").endswith(f"instruction 0 ({line}) {WRONG[line]}")


def test_steps_that_must_not_be() -> None:
    begin = "load.uop dram_base=0x1000 y_size=1 x_size=1\n"
    reset = "gemm uop_end=1 iter_out=1 iter_in=4 dst_factor_in=1 reset\n"
    assert both(begin + "gemm uop_end=1 iter_out=3 iter_in=2 dst_factor_out=5 dst_factor_in=7 reset\nfinish").endswith(
        "writes acc[17] in trip (2, 1), micro-op 0, but acc has 16 elements"
    )
    assert both(begin + reset + "gemm uop_end=1 iter_out=1 iter_in=2 dst_factor_in=1\nfinish").endswith(
        "reads inp[0] in trip (0, 0), micro-op 0, which nothing has written"
    )
    assert both(begin + reset + "alu.add uop_end=1 iter_out=1 iter_in=5 src_factor_in=1\nfinish").endswith(
        "reads acc[4] in trip (0, 4), micro-op 0, which nothing has written"
    )


def test_programs_that_wait_forever() -> None:
    assert both("load.inp pop_next push_next\ngemm pop_prev push_prev\nstore pop_prev\nfinish") == (
        "the program waits forever:\n"
        "  load waits at instruction 0 (load.inp pop_next push_next) for a token in the queue compute to load\n"
        "  compute waits at instruction 1 (gemm pop_prev push_prev) for a token in the queue load to compute\n"
        "  store waits at instruction 2 (store pop_prev) for a token in the queue compute to store\n"
        "  tokens: load to compute 0, compute to load 0, compute to store 0, store to compute 0"
    )
    narrow = of_fields({"COMMAND_QUEUE": 1, "TOKEN_QUEUE": 1})
    assert both(
        "load.inp push_next\nload.inp push_next\nload.inp\nload.inp\ngemm pop_prev\ngemm pop_prev\nfinish", narrow
    ) == (
        "the program waits forever:\n"
        "  load has done instruction 1 (load.inp push_next), whose token has no room in the queue load to compute\n"
        "  compute has no instruction left\n"
        "  store has no instruction left\n"
        "  fetch waits at instruction 3 (load.inp), because the queue of the load unit is full\n"
        "  tokens: load to compute 1, compute to load 0, compute to store 0, store to compute 0"
    )


def test_programs_that_do_not_end_as_they_should() -> None:
    assert both("load.inp push_next\nfinish") == (
        "the program leaves tokens, with which the next one would begin: load to compute 1, compute to load 0, compute to store 0,"
        " store to compute 0"
    )
    assert both("load.inp") == "the program does not end with finish"
    assert both("finish\nload.inp") == "instruction 0 (finish) is not the last of 2 instructions"
    assert both("load.inp pop_prev\nfinish") == "instruction 0 (load.inp pop_prev): the load unit has no unit before it"
    assert both("store push_next\nfinish") == "instruction 0 (store push_next): the store unit has no unit behind it"


def test_accesses_that_no_token_orders() -> None:
    begin = "load.uop dram_base=0x1000 y_size=1 x_size=1\ngemm uop_end=1 iter_out=1 iter_in=4 dst_factor_in=1 reset\n"
    load = "load.inp dram_base=0x1000 y_size=1 x_size=4 {}\nload.wgt dram_base=0x1000 y_size=1 x_size=1 {}\n"
    step = "gemm uop_end=1 iter_out=1 iter_in=4 src_factor_in=1 {}\n"
    assert both(begin + load.format("push_next", "") + step.format("pop_prev") + "finish") == (
        "instruction 4 (gemm uop_end=1 iter_out=1 iter_in=4 src_factor_in=1 pop_prev) reads wgt[0] in trip (0, 0), micro-op 0, but no token"
        " orders it and instruction 3 (load.wgt dram_base=0x1000 y_size=1 x_size=1), which writes it"
    )
    again = (
        load.format("", "push_next")
        + step.format("pop_prev")
        + "load.inp sram_base=3 dram_base=0x1000 y_size=1 x_size=1\nfinish"
    )
    assert both(begin + again).endswith(
        "writes inp[3], but no token orders it and instruction 4 (gemm uop_end=1 iter_out=1 iter_in=4 src_factor_in=1 pop_prev), which"
        " reads it"
    )
    stored = begin + "gemm push_next\nstore dram_base=0x1000 y_size=1 x_size=4 pop_prev\n"
    assert both(stored + "alu.add uop_end=1 iter_out=1 iter_in=4 dst_factor_in=1 use_imm\nfinish").endswith(
        "writes out[0] in trip (0, 0), micro-op 0, but no token orders it and instruction 3 (store dram_base=0x1000 y_size=1 x_size=4"
        " pop_prev), which reads it"
    )
    # What a unit knows, its tokens tell: load knows by the compute unit that the store is done.
    far = stored.replace("pop_prev\n", "pop_prev push_prev\n") + "gemm pop_next push_prev\nload.inp pop_next\nfinish"
    assert order_of(SMALL, program(far)).done[5] == {"load": 0, "compute": 4, "store": 1}


def test_an_instruction_starts_before_those_that_wait() -> None:
    order = order_of(
        SMALL, program("load.inp pop_next\ngemm\ngemm push_prev\nload.wgt push_next\ngemm pop_prev\nfinish")
    )
    assert order.starts == [1, 2, 0, 3, 4, 5]


def test_the_memory_of_a_board_as_a_device() -> None:
    simulator = Simulator(of_fields({"COHERENT": 0}))
    x = nd.array(np.arange(10, dtype="int32"), simulator.device)
    assert simulator.device.exist and x.copyto(nd.empty((10,), "int32")).numpy().sum() == 45
    assert list(np.frombuffer(simulator.read(x.data_address, 40), "int32")) == list(range(10))
    assert not ext_dev(12345).exist
    assert simulator.device.device_name == "VTA 1x16x16, functional"


def test_caches_that_are_not_coherent() -> None:
    simulator = Simulator(of_fields({"COHERENT": 0}))
    uops = simulator.allocate(64)
    code = program(
        "load.uop dram_base={uops} y_size=1 x_size=1\ngemm uop_end=1 iter_out=1 iter_in=1 reset\nfinish", uops=uops
    )
    data = encode_uops(simulator.layout, [Uop(2047, 0, 0)])
    device_function("write")(simulator.id, uops, data)  # the CPU's cache has it, and the memory does not
    simulator.run(code)
    assert device_function("read")(simulator.id, uops, 4) == data
    device_function("invalidate")(simulator.id, uops, 4)
    assert device_function("read")(simulator.id, uops, 4) == bytes(4)
    simulator.write(uops, data)
    device_function("invalidate")(simulator.id, uops, 4)
    assert device_function("read")(simulator.id, uops, 4) == data


def test_code_for_another_configuration() -> None:
    large = Simulator(of_fields({"LOG_INP_BUFF_SIZE": 21, "LOG_ACC_BUFF_SIZE": 21}))
    small = Simulator(Configuration())
    small.layout = large.layout
    with pytest.raises(
        ValueError,
        match=r"^instruction 0 \(load\): bits from 120 on must be 0; is the code for another configuration\?$",
    ):
        small.run(program("load.inp pad_min x_pad_right=3 x_pad_left=5\nfinish"))


def test_memory_that_is_given_back_is_used_again() -> None:
    simulator = Simulator(SMALL)
    first, second = simulator.allocate(5000), simulator.allocate(10)
    simulator.release(first)
    assert simulator.allocate(4096) == first and second > first + 5000
    with pytest.raises(MemoryError, match="the accelerator's memory has no room for 4294967296 bytes"):
        simulator.allocate(1 << 32)
    with pytest.raises(ValueError, match="no memory of the accelerator begins at 0x7"):
        simulator.release(7)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    assert "differs" not in one(7000 + seed)


def test_random_programs_find_a_wrong_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.vta.simulator import reference

    monkeypatch.setitem(reference.ALU, "clip", lambda x, y, bits: np.minimum(np.maximum(x, -y), y))
    assert any(["differs" in one(seed) for seed in range(60)])
