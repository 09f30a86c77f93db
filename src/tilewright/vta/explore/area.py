"""An estimate of the area of an accelerator, in gate equivalents: the area of a NAND gate with two inputs.

The numbers are assumptions that rank configurations: a full adder as 6 of them, a flip-flop 6, a bit of memory on the chip 0.6 with its
share of decoders and amplifiers. They are of no process and no library; a table of cells comes from synthesis (docs/vta_hardware.md)."""

from __future__ import annotations

from tilewright.vta.configuration import Configuration

ADDER_BIT, REGISTER_BIT, MEMORY_BIT = 6.0, 6.0, 0.6
SECOND_PORT = 1.5
"""Area of a memory with two ports over one with one, by assumption."""
ALU_BIT = 90.0
"""A lane of the ALU for each bit of an accumulator, assumed: a shifter of five stages, a multiplier by its half, comparisons, selection."""


def area_of(config: Configuration) -> dict[str, float]:
    """Gate equivalents of each part: products, ALU, the memories."""
    lanes = config.batch * config.block_out
    products = lanes * config.block_in
    multiplier = config.inp_width * config.wgt_width * ADDER_BIT
    found = {
        "products": products * (multiplier + config.acc_width * (ADDER_BIT + REGISTER_BIT / 4)),
        "ALU": lanes * config.acc_width * ALU_BIT,
    }
    for memory in ("uop", "inp", "wgt", "acc", "out"):
        bits = config.depth(memory) * config.element_bits(memory)
        ports = SECOND_PORT if memory == "acc" or (memory != "uop" and config.sram_ports == 2) else 1.0
        found[memory] = bits * MEMORY_BIT * ports
    return found


__all__ = ["ADDER_BIT", "ALU_BIT", "MEMORY_BIT", "REGISTER_BIT", "SECOND_PORT", "area_of"]
