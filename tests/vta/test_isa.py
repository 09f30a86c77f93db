"""The instruction set: encoding, decoding, assembly, and the page that is written from the tables."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tilewright.vta.config_fields import of_fields
from tilewright.vta.configuration import Configuration
from tilewright.vta.isa import assembly, specification
from tilewright.vta.isa.layout import layout_of
from tilewright.vta.isa.program import Insn, Program, Uop, decode, decode_uops, encode, encode_uops, insn
from tilewright.vta.isa.tables import INSTRUCTIONS

LAYOUT = layout_of(Configuration())
CONFIGURATIONS = [
    Configuration(),
    of_fields({"LOG_INP_BUFF_SIZE": 21, "LOG_ACC_BUFF_SIZE": 21}),
    of_fields(
        {"BATCH": 3, "BLOCK_IN": 5, "BLOCK_OUT": 7, "INP_BUFF_SIZE": 1500, "WGT_BUFF_SIZE": 315, "ACC_BUFF_SIZE": 84}
    ),
]


def random_program(config: Configuration, rng: random.Random, count: int) -> Program:
    """Instructions with any values that their fields can hold."""
    layout = layout_of(config)
    program = Program()
    for _ in range(count):
        name = rng.choice([i.name for i in INSTRUCTIONS])
        values = {}
        for place in layout.instructions[name][1:]:
            high = len(place.field.choices) - 1 if place.field.choices else place.high
            value = rng.choice([place.low, high, rng.randint(place.low, high)])
            if value:
                values[place.field.name] = value
        program.instructions.append(Insn(name, values))
        program.uops.append(Uop(*[rng.randint(0, place.high) for place in layout.uop]))
    return program


@pytest.mark.parametrize("config", CONFIGURATIONS)
def test_programs_come_back(config: Configuration) -> None:
    layout, program = layout_of(config), random_program(config, random.Random(1), 300)
    assert decode(layout, encode(layout, program.instructions)) == program.instructions
    assert decode_uops(layout, encode_uops(layout, program.uops)) == program.uops
    assert assembly.assemble(assembly.disassemble(program)) == program


def test_the_bits_of_an_instruction() -> None:
    code = encode(
        LAYOUT, [insn("load", memory="inp", sram_base=5, dram_base=0x1234, y_size=1, x_size=2, x_stride=3, push_next=1)]
    )
    word = int.from_bytes(code, "little")
    assert len(code) == 16 and word & 7 == 0 and word >> 6 & 1 == 1 and word >> 7 & 7 == 2
    # sram_base has the 13 bits of an index of micro-ops, the deepest memory.
    assert word >> 10 & 0x1FFF == 5 and word >> 23 & 0xFFFFFFFF == 0x1234 and word >> 55 == 1 | 2 << 16 | 3 << 32


def test_units() -> None:
    assert [insn("load", memory=m).unit for m in ("uop", "wgt", "inp", "acc")] == ["compute", "load", "load", "compute"]
    assert [insn(n).unit for n in ("store", "gemm", "alu", "finish")] == ["store", "compute", "compute", "compute"]


def test_values_that_a_field_cannot_hold() -> None:
    with pytest.raises(
        ValueError, match=r"^instruction 1 \(gemm\): field dst_factor_in is 2048, but its 11 bits hold 0 to 2047$"
    ):
        encode(LAYOUT, [insn("finish"), insn("gemm", dst_factor_in=2048)])
    with pytest.raises(
        ValueError, match=r"^instruction 0 \(alu\): field imm is -32769, but its 16 bits hold -32768 to 32767$"
    ):
        encode(LAYOUT, [insn("alu", op="add", imm=-32769)])
    with pytest.raises(ValueError, match=r"^micro-op 0: field wgt is 1024, but its 10 bits hold 0 to 1023$"):
        encode_uops(LAYOUT, [Uop(0, 0, 1024)])


def test_code_that_is_none() -> None:
    with pytest.raises(ValueError, match="^instruction 0: there is no opcode 7$"):
        decode(LAYOUT, b"\7" + bytes(15))
    with pytest.raises(ValueError, match=r"^instruction 0 \(finish\): bits from 7 on must be 0, but are 0x1$"):
        decode(LAYOUT, b"\x83" + bytes(15))
    with pytest.raises(ValueError, match="^17 bytes are no whole number of instructions of 16 bytes$"):
        decode(LAYOUT, bytes(17))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("jump", "there is no instruction jump; there are uop, load, store, gemm, finish, alu"),
        ("load x_size=1", "load is written with one of load.uop, load.wgt, load.inp, load.acc, load.out"),
        ("finish.now", "finish has nothing behind a dot"),
        ("uop dst", "dst needs a value: dst=0"),
        ("uop dst=1 dst=2", "dst is there twice"),
        ("uop x=1", "uop has no field x; it has dst, src, wgt"),
        ("gemm iter_in=ten", "iter_in is 'ten', which is no integer"),
    ],
)
def test_lines_that_are_no_assembly(line: str, message: str) -> None:
    with pytest.raises(ValueError) as error:
        assembly.assemble(f"# a comment\n{line}\n")
    assert str(error.value) == f"line 2: {message}"


def test_the_page_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "vta_instructions.md"
    assert page.read_text() == specification.page(), (
        "write it anew: python -m tilewright.vta.isa.specification > docs/vta_instructions.md"
    )
