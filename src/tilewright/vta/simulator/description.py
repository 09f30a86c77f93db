"""An accelerator as text, which the native library reads (native/devices/vta/description.cc): numbers of the configuration, and the place
of every field. For a simulated board it is what a bitstream is for a real one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilewright.vta.configuration import MEMORIES, Configuration
from tilewright.vta.isa.layout import Place, layout_of
from tilewright.vta.isa.tables import ALU_OPS

FIRST_LINE = "tilewright accelerator 1"
_NUMBERS = (
    "batch", "block_in", "block_out", "coherent", "frequency", "command_queue", "token_queue", "dram_latency", "dram_bytes", "dram_burst",
    "dram_requests", "sram_ports", "gemm_latency", "alu_latency",
)  # fmt: skip


def _fields(name: str, row: Iterable[Place]) -> Iterator[str]:
    for place in row:
        kinds = f"{int(place.field.signed)} {int(place.field.width == 'address')}"
        yield f"field {name} {place.field.name} {place.offset} {place.bits} {kinds}"


def _lines(config: Configuration) -> Iterator[str]:
    layout = layout_of(config)
    yield FIRST_LINE
    for name in _NUMBERS:
        yield f"{name} {getattr(config, name)}"
    yield f"timed {int(config.target == 'tsim')}"
    yield f"instruction_bytes {layout.instruction_bytes}"
    for m in MEMORIES:
        yield f"memory {m} {config.width(m)} {config.element_bytes(m)} {config.depth(m)} {config.alignment(m)}"
    yield " ".join(["alu", *ALU_OPS])
    for name, row in layout.instructions.items():
        yield from _fields(name, row)
    yield from _fields("micro-op", layout.uop)


def describe(config: Configuration) -> str:
    """The text for a configuration."""
    return "".join([line + "\n" for line in _lines(config)])


__all__ = ["FIRST_LINE", "describe"]
