"""The cycle-level simulator: times that follow from its rules (docs/vta_timing.md), counters, traces."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.accelerator.tiled_layers import Convolution, kernel_of, task_of
from tests.vta.random_programs import in_order, random_configuration
from tilewright import nd, rpc, vta
from tilewright.runtime import ext_dev
from tilewright.vta.config_fields import FIELDS, of_fields
from tilewright.vta.configuration import Configuration
from tilewright.vta.environment import Environment
from tilewright.vta.image import UOPS, Kernel
from tilewright.vta.isa.assembly import assemble
from tilewright.vta.isa.program import Uop, encode_uops
from tilewright.vta.simulator.native import Simulator
from tilewright.vta.testing import simulator as board

UOP = "load.uop dram_base=@ y_size=1 x_size=1\n"
RESET = UOP + "gemm uop_end=1 iter_out=1 iter_in=64 dst_factor_in=1 reset\n"
WRITTEN = (
    RESET
    + "load.inp dram_base=@ y_size=1 x_size=64\nload.wgt dram_base=@ y_size=1 x_size=64 push_next\ngemm pop_prev\n"
)


def run(text: str, **fields: Any) -> dict[str, Any]:
    """The counters of a program at whose memory `@` stands; it begins with two micro-ops, of inp[0] and of inp[200]."""
    simulator = Simulator(of_fields({"TARGET": "tsim", **fields}))
    address = simulator.allocate(1 << 20)
    simulator.write(address, encode_uops(simulator.layout, [Uop(), Uop(0, 200, 0)]))
    simulator.run(assemble(text.replace("@", hex(address)) + "\nfinish").instructions)
    return simulator.stats()


def cycles(text: str, **fields: Any) -> int:
    return int(run(text, **fields)["cycle_count"])


def test_fetch() -> None:
    # Requests at cycle 0, data from cycle 40 on, two beats of 8 bytes; the instruction is in its queue in the next cycle, starts, ends.
    assert cycles("", DRAM_LATENCY=40) == 45
    assert cycles("", DRAM_LATENCY=100) == 105
    assert cycles("", DRAM_BYTES=16) == 44
    assert cycles("gemm\n" * 100) - cycles("gemm\n" * 50) == 50 * 2


@pytest.mark.parametrize(("memory", "size"), [("inp", 16), ("wgt", 256), ("acc", 64)])
@pytest.mark.parametrize("beat", [8, 64])
def test_loads_take_the_time_of_their_beats(memory: str, size: int, beat: int) -> None:
    few, many = (
        cycles(f"load.{memory} dram_base=@ y_size=1 x_size={n}", DRAM_BYTES=beat, DRAM_REQUESTS=64) for n in (20, 120)
    )
    assert many - few == 100 * max(size // beat, 1)


def test_a_narrow_window_of_requests_shows_the_latency() -> None:
    # One burst of 64 bytes under way: its latency, its 8 beats, and a cycle until the next request can follow the last byte.
    few, many = (cycles(f"load.inp dram_base=@ y_size=1 x_size={n}", DRAM_REQUESTS=1) for n in (4, 84))
    assert (many - few) / 20 == 40 + 8 + 1
    wide = [cycles(f"load.inp dram_base=@ y_size=1 x_size={n}", DRAM_REQUESTS=8) for n in (4, 84)]
    assert wide[1] - wide[0] == 80 * 2


def test_padding_takes_a_cycle_an_element() -> None:
    plain = cycles("load.inp dram_base=@ y_size=10 x_size=10 x_stride=10", DRAM_REQUESTS=64)
    padded = cycles(
        "load.inp dram_base=@ y_size=10 x_size=10 x_stride=10 x_pad_left=3 y_pad_bottom=2", DRAM_REQUESTS=64
    )
    # The first row's padding is written while its data are on the way, others while the next data arrive in the buffer.
    assert 2 * 13 <= padded - plain <= 10 * 3 + 2 * 13


def test_rows_that_are_not_aligned_need_more_beats() -> None:
    even = run("load.inp dram_base=@ y_size=10 x_size=1 x_stride=1", BLOCK_IN=8, WGT_BUFF_SIZE=1 << 15)
    odd = run("load.inp dram_base=@ y_size=10 x_size=1 x_stride=1", BLOCK_IN=9, INP_BUFF_SIZE=9000, WGT_BUFF_SIZE=14400)
    assert odd["units"]["load"]["nbytes"] == 90 and even["units"]["load"]["nbytes"] == 80
    assert odd["dram_busy"] - even["dram_busy"] > 2


def test_a_product_takes_a_cycle_a_step() -> None:
    text = "gemm uop_end=1 iter_out={} iter_in=16 dst_factor_in=1 src_factor_in=1 wgt_factor_in=1"
    assert cycles(WRITTEN + text.format(101)) - cycles(WRITTEN + text.format(1)) == 1600


def test_steps_wait_for_their_accumulator() -> None:
    text = "gemm uop_end=1 iter_out=100 iter_in={} dst_factor_in=1"
    for latency in (1, 4, 9):
        for visited in (1, 2, 3, 8):
            found = run(WRITTEN + text.format(visited), GEMM_LATENCY=latency)["units"]["compute"]
            assert found["hazard"] == 99 * max(latency - visited, 0)


def test_operands_of_the_alu() -> None:
    one = "alu.add uop_end=1 iter_out={} iter_in=16 dst_factor_in=1 use_imm imm=1"
    two = "alu.add uop_end=1 iter_out={} iter_in=16 dst_factor_in=1 src_factor_in=1"
    assert cycles(RESET + one.format(51)) - cycles(RESET + one.format(1)) == 50 * 16
    assert cycles(RESET + two.format(51)) - cycles(RESET + two.format(1)) == 50 * 32


def test_one_port() -> None:
    text = (
        WRITTEN + "gemm uop_end=1 iter_out=50 iter_in=16 dst_factor_in=1\n"
        "load.inp dram_base=@ sram_base=100 y_size=1 x_size=100\n"
    )
    assert run(text, SRAM_PORTS=2)["units"]["load"]["port"] == 0
    waiting = run(text, SRAM_PORTS=1)["units"]["load"]["port"]
    assert 700 <= waiting <= 800


def test_stores_end_with_the_answer() -> None:
    text = RESET + "gemm push_next\nstore dram_base=@ y_size=1 x_size={} pop_prev"
    assert cycles(text.format(40)) - cycles(text.format(20)) == 20 * 2
    with_latency = [cycles(text.format(1), DRAM_LATENCY=n) for n in (10, 60)]
    # Fetch, the micro-op's load and the store's answer.
    assert with_latency[1] - with_latency[0] == 3 * 50


def test_units_overlap() -> None:
    """Two buffers: the load of the second one runs beside the product of the first one."""
    load = "load.inp dram_base=@ sram_base={} y_size=1 x_size=200 push_next{}\n"
    product = "gemm uop_begin={0} uop_end={1} iter_out=40 iter_in=10 dst_factor_in=1 pop_prev push_prev\n"
    begin = (
        UOP.replace("x_size=1", "x_size=2")
        + "gemm uop_end=1 iter_out=1 iter_in=64 dst_factor_in=1 reset\nload.wgt dram_base=@ y_size=1 x_size=1\n"
    )
    serial = "".join([load.format(0, " pop_next" if n else "") + product.format(0, 1) for n in range(8)])
    double = "".join(
        [load.format(n % 2 * 200, " pop_next" if n > 1 else "") + product.format(n % 2, n % 2 + 1) for n in range(8)]
    )
    end = "load.inp pop_next\n"
    alone, beside = cycles(begin + serial + end), cycles(begin + double + end * 2)
    # A load takes 400 cycles and its latency, a product 400: one after the other or at the same time.
    assert alone - beside > 7 * 380


def test_waits_are_counted_once_in_a_cycle() -> None:
    found = run(WRITTEN + "gemm push_next\nstore dram_base=@ y_size=1 x_size=64 pop_prev push_prev\ngemm pop_next\n")
    for unit in found["units"].values():
        assert sum(unit.values()) - unit["nbytes"] == found["cycle_count"]
    assert found["units"]["compute"]["waits for next"] > 64 * 2 + 40
    assert found["units"]["compute"]["waits for prev"] > 64 * 32 - 200
    assert found["fetch_nbytes"] == 9 * 16 and found["units"]["store"]["nbytes"] == 64 * 16


def test_a_full_queue_of_tokens() -> None:
    text = "load.inp push_next\n" * 3 + UOP + "gemm pop_prev\n" * 3
    assert run(text, TOKEN_QUEUE=1)["units"]["load"]["token queue full"] > 20
    assert run(text, TOKEN_QUEUE=3)["units"]["load"]["token queue full"] == 0


def test_a_trace() -> None:
    simulator = Simulator(of_fields({"TARGET": "tsim"}))
    address = simulator.allocate(1 << 16)
    simulator.start_trace()
    program = assemble(WRITTEN.replace("@", hex(address)) + "finish").instructions
    simulator.run(program)
    events = json.loads(simulator.trace())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert list(names.values()) == ["load", "compute", "store", "load waits", "compute waits", "store waits"]
    spans = [e for e in events if e["ph"] == "X"]
    done = [(names[e["tid"]], e["name"]) for e in spans if e["tid"] < 3]
    assert sorted(done) == [
        ("compute", "finish"), ("compute", "gemm"), ("compute", "gemm"), ("compute", "load.uop"),
        ("load", "load.inp"), ("load", "load.wgt"),
    ]  # fmt: skip
    assert {e["name"] for e in spans if e["tid"] == 4} == {"DRAM", "token load to compute"}
    first = next(e for e in spans if e["tid"] == 1)
    assert first["args"]["instruction"] == f"0: load.uop dram_base={address:#x} y_size=1 x_size=1"
    for tid in names:
        track = sorted([(e["ts"], e["ts"] + e["dur"]) for e in spans if e["tid"] == tid])
        assert all([a[1] <= b[0] for a, b in zip(track, track[1:], strict=False)])
    assert max(e["ts"] + e["dur"] for e in spans) == simulator.stats()["cycle_count"]
    rates = [e["args"]["bytes per cycle"] for e in events if e["ph"] == "C"]
    assert 0 < max(rates) <= 8 and sum(rates) * 256 == pytest.approx(64 * (256 + 16) + 4 + 16 * len(program), rel=0.2)


def test_times_of_several_programs_add_up() -> None:
    simulator = Simulator(of_fields({"TARGET": "tsim"}))
    for _ in range(3):
        simulator.run(assemble("finish").instructions)
    assert simulator.stats()["cycle_count"] == 3 * 45 and simulator.stats()["programs"] == 3
    simulator.clear_stats()
    assert simulator.stats()["cycle_count"] == 0


@pytest.mark.parametrize("seed", range(12))
def test_less_bandwidth_and_latency_never_help(seed: int) -> None:
    """Resources that only delay: a slower machine takes at least as long for a program in a fixed order."""
    rng = random.Random(seed)
    fields = {"TARGET": "tsim", "DRAM_LATENCY": rng.randint(2, 30), "GEMM_LATENCY": rng.randint(1, 6)}
    text = WRITTEN + "".join(
        [
            rng.choice(
                [
                    f"gemm uop_end=1 iter_out={rng.randint(1, 9)} iter_in={rng.randint(1, 9)} dst_factor_in=1\n",
                    f"load.inp dram_base=@ y_size={rng.randint(1, 4)} x_size={rng.randint(1, 9)} x_stride=9\n",
                    f"store dram_base=@ y_size=1 x_size={rng.randint(1, 30)}\n",
                    "alu.max uop_end=1 iter_out=3 iter_in=8 dst_factor_in=1 use_imm imm=3\n",
                ]
            )
            for _ in range(12)
        ]
    )
    ordered = in_order(assemble(text.replace("@", "0x1000") + "finish").instructions)

    def time(**more: int) -> int:
        simulator = Simulator(of_fields({**fields, **more}))
        assert simulator.allocate(1 << 16) == 0x1000
        simulator.run(ordered)
        return int(simulator.stats()["cycle_count"])

    base = time()
    assert time(DRAM_LATENCY=fields["DRAM_LATENCY"] + 7) >= base
    assert time(DRAM_BYTES=4) >= base
    assert time(GEMM_LATENCY=fields["GEMM_LATENCY"] + 2) >= base
    assert time(SRAM_PORTS=1) >= base


def test_the_page_names_every_parameter() -> None:
    page = (Path(__file__).parents[2] / "docs" / "vta_timing.md").read_text()
    default = Configuration()
    timed = [f for f in FIELDS if f.name.split("_")[-1] in ("QUEUE", "LATENCY", "BYTES", "BURST", "REQUESTS", "PORTS")]
    assert len(timed) == 9
    for f in timed:
        assert f"| `{f.name}` | {getattr(default, f.attribute)} |" in page


def test_odd_arrays_run() -> None:
    config = random_configuration(
        random.Random(3), TARGET="tsim", BATCH=3, BLOCK_IN=5, BLOCK_OUT=7, INP_WIDTH=8, WGT_WIDTH=8
    )
    simulator = Simulator(config)
    address = simulator.allocate(1 << 12)
    simulator.run(assemble(f"load.inp dram_base={address + 7} y_size=1 x_size=2\nfinish").instructions)
    assert simulator.stats()["inp_load_nbytes"] == 30
    assert np.frombuffer(simulator.read(address, 4), "int8").sum() == 0


def test_cycles_without_data() -> None:
    """Cycles of a kernel are those of its run with data, and are not counted further than asked for."""
    layer = Convolution(8, 2, 2, 3, 1)
    with Environment({"TARGET": "tsim"}) as env:
        task = task_of(layer, env)
        entity = task.config_space.get(0)
        kernel = kernel_of(task, entity, env)
        with env.target:
            s, args = task.instantiate(entity)
        vta.reconfig_runtime(rpc.LocalSession())
        arrays = [nd.array(np.ones([int(n) for n in a.shape], str(a.dtype)), ext_dev(0)) for a in args]
        board.clear_stats()
        vta.build(s, args, env.target)(*arrays)
        expected = board.stats()["cycle_count"]
    simulator = Simulator(env.configuration)
    assert kernel is not None and simulator.cycles(kernel) == simulator.cycles(kernel, expected) == expected
    assert simulator.cycles(kernel, expected - 1) is None
    with pytest.raises(RuntimeError, match="is functional and has no cycles; its target must be tsim"):
        Simulator(of_fields({})).cycles(kernel)


BEYOND = {
    "gemm uop_end=1 iter_out=16000 iter_in=1 dst_factor_out=2000 reset": (
        "writes acc[4000] in trip (2, 0), micro-op 0, but acc has 2048 elements"
    ),
    "gemm uop_end=1 iter_out=2047 iter_in=1 src_factor_out=2": "reads inp[2048] in trip (1024, 0), micro-op 0, but inp has 2048 elements",
    "gemm uop_end=1 iter_out=3 iter_in=1 wgt_factor_out=1000": "reads wgt[2000] in trip (2, 0), micro-op 0, but wgt has 1024 elements",
    "gemm uop_end=2 iter_out=1 iter_in=1 reset": "reads uop[1] in trip (0, 0), micro-op 1, which nothing has written",
    "alu.add uop_end=1 iter_out=3 iter_in=2 src_factor_out=1000 src_factor_in=48": (
        "reads acc[2048] in trip (2, 1), micro-op 0, but acc has 2048 elements"
    ),
    "load.inp sram_base=2000 y_size=1 x_size=49": "writes inp[2048], but inp has 2048 elements",
    "store sram_base=2000 y_size=1 x_size=49": "reads out[2048], but out has 2048 elements",
    "load.out y_size=1 x_size=1": "loads a memory that cannot be loaded",
}


def kernel(text: str, uops: int) -> Kernel:
    """A program whose first instruction loads the micro-ops."""
    return Kernel("k", 0, assemble(text + "\nfinish").instructions, [Uop()] * uops, [(0, UOPS)] if uops else [])


@pytest.mark.parametrize("line", BEYOND)
def test_cycles_of_what_goes_beyond_a_memory(line: str) -> None:
    """As in a run, without an access of the simulator beyond its own memory."""
    simulator = Simulator(of_fields({"TARGET": "tsim"}))
    before = simulator.stats()
    with pytest.raises((IndexError, ValueError)) as found:
        simulator.cycles(kernel(f"load.uop y_size=1 x_size=1\n{line}", 1))
    assert str(found.value).endswith(f"instruction 1 ({line}) {BEYOND[line]}")
    assert simulator.stats() == before
    if line.startswith("gemm") and "reset" in line:
        with pytest.raises(type(found.value)) as expected:
            run(f"{UOP}{line}")
        assert str(expected.value) == str(found.value)


def test_cycles_without_micro_ops() -> None:
    simulator = Simulator(of_fields({"TARGET": "tsim"}))
    first = simulator.allocate(1)
    simulator.release(first)
    with pytest.raises(IndexError, match=r"reads uop\[0\] in trip \(0, 0\), micro-op 0, which nothing has written"):
        simulator.cycles(kernel("gemm uop_end=1 iter_out=1 iter_in=1 reset", 0))
    loads = "load.inp y_size=1 x_size=8"
    assert simulator.cycles(kernel(loads, 0)) == cycles(f"{loads} dram_base=@")
    assert simulator.allocate(1) == first, "memory was not released"


def test_memory_that_a_failure_leaves() -> None:
    """What cannot be encoded leaves no memory allocated."""
    simulator = Simulator(of_fields({"TARGET": "tsim"}))
    first = simulator.allocate(1)
    simulator.release(first)
    with pytest.raises(ValueError, match="x_size"):
        simulator.cycles(kernel(f"load.uop y_size=1 x_size={1 << 16}", 1))
    assert simulator.allocate(1) == first
