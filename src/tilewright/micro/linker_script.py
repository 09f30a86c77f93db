"""Linker scripts for firmware, generated from descriptions of boards; GNU ld and lld read them."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.micro.board import Board

DEFAULT_STACK = 4096
"""Bytes of stack where the analysis of the call graph gave none."""


def linker_script(board: Board, stack: int = DEFAULT_STACK, pools: Mapping[str, tuple[str, str]] | None = None) -> str:
    """The script of a board's firmware: vectors, code and constants in the memory for code, variables in that for data, the stack at the
    end of it, `stack` bytes at least.

    pools: by name of a pool, the memory that it lies in, and the section of objects that it is. Raises BoardError for memories that the
    board does not have.
    """
    regions = "\n".join([
        f"  {r.name} ({'rx' if r.kind == 'flash' else 'rwx' if r.executable else 'rw'}) : ORIGIN = {r.start:#010x}, LENGTH = {r.size:#x}"
        for r in board.memory
    ])  # fmt: skip
    code, data = board.code.name, board.data.name
    loaded = f" AT> {code}" if code != data else ""
    placed = "\n".join([
        f"  .pool.{name}{' (NOLOAD)' if section.startswith('.bss') else ''} : ALIGN(8) {{ *({section}) }} > {board.region(memory).name}"
        for name, (memory, section) in (pools or {}).items()
    ])  # fmt: skip
    placed = f"{placed}\n" if placed else ""
    return f"""\
/* {board.name}: {board.about} */
ENTRY(tw_reset)

MEMORY {{
{regions}
}}

SECTIONS {{
  .vectors : ALIGN(256) {{ KEEP(*(.vectors)) }} > {code}
{placed}  .text : ALIGN(8) {{ *(.text .text.*) }} > {code}
  .rodata : ALIGN(8) {{ *(SORT_BY_ALIGNMENT(.rodata*) SORT_BY_ALIGNMENT(.srodata*)) . = ALIGN(8); }} > {code}
  .data : ALIGN(16) {{
    tw_data_start = .;
    *(.data .data.* .sdata .sdata.*)
    *(.got .got.*)
    . = ALIGN(8);
    tw_data_end = .;
  }} > {data}{loaded}
  tw_data_load = LOADADDR(.data);
  .bss (NOLOAD) : ALIGN(8) {{
    tw_bss_start = .;
    *(SORT_BY_ALIGNMENT(.bss*) SORT_BY_ALIGNMENT(.sbss*) COMMON)
    . = ALIGN(8);
    tw_bss_end = .;
  }} > {data}
  tw_heap_start = ALIGN(16);
  tw_stack_top = ORIGIN({data}) + LENGTH({data});
  tw_heap_end = tw_stack_top - {_rounded(stack)};
  ASSERT(tw_heap_start <= tw_heap_end, "{board.name}: variables and a stack of {_rounded(stack)} bytes do not fit into {data}")
  /DISCARD/ : {{ *(.ARM.exidx* .ARM.extab* .eh_frame* .comment .note*) }}
}}
"""


def _rounded(size: int) -> int:
    """Stacks are multiples of 16 bytes."""
    return -(-size // 16) * 16


__all__ = ["DEFAULT_STACK", "linker_script"]
