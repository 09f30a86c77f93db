"""Configurations from JSON fields, what follows from them, and the classic environment."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tilewright.vta import config_fields, environment
from tilewright.vta.config_fields import of_fields, to_fields
from tilewright.vta.configuration import Configuration
from tilewright.vta.isa.layout import bits_of, layout_of

CLASSIC = {
    "TARGET": "sim", "HW_VER": "0.0.2", "LOG_INP_WIDTH": 3, "LOG_WGT_WIDTH": 3, "LOG_ACC_WIDTH": 5, "LOG_BATCH": 0, "LOG_BLOCK": 4,
    "LOG_UOP_BUFF_SIZE": 15, "LOG_INP_BUFF_SIZE": 15, "LOG_WGT_BUFF_SIZE": 18, "LOG_ACC_BUFF_SIZE": 17,
}  # fmt: skip
ODD = {
    "BATCH": 3,
    "BLOCK_IN": 5,
    "BLOCK_OUT": 7,
    "INP_BUFF_SIZE": 15 * 100,
    "WGT_BUFF_SIZE": 35 * 9,
    "ACC_BUFF_SIZE": 84 * 33,
}


def test_classic_fields_give_the_default() -> None:
    assert of_fields(CLASSIC) == of_fields({}) == Configuration()


def test_elements_and_depths_of_the_default() -> None:
    c = Configuration()
    assert [c.element_bytes(m) for m in ("uop", "wgt", "inp", "acc", "out")] == [4, 256, 16, 64, 16]
    assert [c.depth(m) for m in ("uop", "wgt", "inp", "acc", "out")] == [8192, 1024, 2048, 2048, 2048]
    assert c.out_buff_size == 1 << 15


def test_an_odd_array() -> None:
    c = of_fields(ODD)
    assert [c.element_bytes(m) for m in ("wgt", "inp", "acc", "out")] == [35, 15, 84, 21]
    assert [c.depth(m) for m in ("wgt", "inp", "acc", "out")] == [9, 100, 33, 33]
    assert [c.alignment(m) for m in ("wgt", "inp", "acc", "out")] == [1, 1, 4, 1]
    assert [p.bits for p in layout_of(c).uop] == [6, 7, 4]


@pytest.mark.parametrize("fields", [CLASSIC, ODD, {"LOG_INP_BUFF_SIZE": 21}, {"LOG_WGT_WIDTH": 1, "HW_FREQ": 333}])
def test_fields_come_back(fields: dict[str, Any]) -> None:
    c = of_fields(fields)
    assert of_fields(to_fields(c)) == c
    assert config_fields.of_json(json.dumps(to_fields(c))) == c


def test_widths_follow_the_memories() -> None:
    small, large = Configuration(), of_fields({"LOG_INP_BUFF_SIZE": 21, "LOG_ACC_BUFF_SIZE": 21})
    assert (small.ins_width, small.uop_width, bits_of(layout_of(small).instructions["gemm"])) == (128, 32, 127)
    assert (large.ins_width, large.uop_width) == (256, 64)
    assert [p.bits for p in layout_of(large).uop] == [15, 17, 10]


REFUSED = {
    "unknown field LOG_BLOK; did you mean LOG_BLOCK or LOG_BLOCK_IN or LOG_BLOCK_OUT?": {"LOG_BLOK": 4},
    "LOG_BATCH gives 512 for rows of the array's input; it can be 1 to 256": {"LOG_BATCH": 9},
    "LOG_BATCH is 99; it can be 0 to 31": {"LOG_BATCH": 99},
    "LOG_BATCH is '1'; it must be an integer": {"LOG_BATCH": "1"},
    "LOG_ACC_WIDTH gives 64 for bits of an accumulator; it can be 16, 32": {"LOG_ACC_WIDTH": 6},
    "TARGET is 'fpga'; it can be sim, tsim, pynq, ultra96, zcu104, de10nano, intelfocl": {"TARGET": "fpga"},
    "BLOCK_OUT says 32, but LOG_BLOCK says 16; give one of them": {"LOG_BLOCK": 4, "BLOCK_OUT": 32},
    "OUT_WIDTH is 32, more than the 16 bits of an accumulator": {"ACC_WIDTH": 16, "OUT_WIDTH": 32},
    "an element of inp has 1 x 3 numbers of 4 bits; it must be a whole number of bytes": {
        "BLOCK_IN": 3, "LOG_INP_WIDTH": 2, "WGT_BUFF_SIZE": 480,
    },
    "INP_BUFF_SIZE is 1000 bytes, but an element of inp has 16; take 992 or 1008": {"INP_BUFF_SIZE": 1000},
    "ACC_BUFF_SIZE is 60 bytes, but an element of acc has 64; take 64": {"ACC_BUFF_SIZE": 60},
    "the instruction gemm has 128 bits, but its fields need 137: `wgt_factor_in` would end at bit 136; take smaller memories or a larger"
    " LOG_INS_WIDTH (widths: opcode 3, pop_prev 1, pop_next 1, push_prev 1, push_next 1, uop_begin 12, uop_end 13, iter_out 14, iter_in 14,"
    " dst_factor_out 11, dst_factor_in 11, src_factor_out 17, src_factor_in 17, wgt_factor_out 10, wgt_factor_in 10, reset 1)": {
        "LOG_INS_WIDTH": 7, "LOG_INP_BUFF_SIZE": 21,
    },
    "a micro-op has 64 bits, but its fields need 91: `wgt` would end at bit 91; take smaller memories or larger blocks (widths: dst 29,"
    " src 31, wgt 31)": {"BLOCK": 1, "LOG_WGT_BUFF_SIZE": 31, "LOG_INP_BUFF_SIZE": 31, "LOG_ACC_BUFF_SIZE": 31},
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED, ids=[m[:40] for m in REFUSED])
def test_what_no_accelerator_can_be(message: str) -> None:
    with pytest.raises(ValueError) as error:
        of_fields(REFUSED[message])
    assert str(error.value) == message


def test_environment() -> None:
    env = environment.get_env()
    assert env is environment.get_env() and env.configuration == Configuration()
    assert (env.BATCH, env.BLOCK_IN, env.BLOCK_OUT, env.INP_ELEM_BYTES, env.WGT_ELEM_BITS) == (1, 16, 16, 16, 2048)
    assert (env.inp_dtype, env.wgt_dtype, env.acc_dtype, env.out_dtype) == ("int8", "int8", "int32", "int8")
    assert env.MODEL == "sim_1x16_i8w8a32_15_15_18_17" == env.target.attrs["model"]
    with environment.Environment({**CLASSIC, "BLOCK_OUT": 16, "LOG_BATCH": 1}) as inner:
        assert environment.get_env() is inner and inner.BATCH == 2
    assert environment.get_env() is env


def test_environment_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "vta_config.json").write_text(
        json.dumps({"BLOCK_IN": 8, "BLOCK_OUT": 24, "WGT_BUFF_SIZE": 1920, "ACC_BUFF_SIZE": 9600})
    )
    code = "import tilewright.as_tvm, vta; print(vta.get_env().MODEL)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env={**os.environ, "VTA_HW_PATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "sim_1x8x24_i8w8a32_15_15_1920b_9600b\n"


def test_copies_in_other_processes_find_their_own_hash() -> None:
    configuration = Configuration()
    assert hash(configuration) == configuration._hash
    copy = pickle.loads(pickle.dumps(configuration))
    assert copy == configuration and "_hash" not in copy.__dict__
