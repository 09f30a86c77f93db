"""Programs as text: a line for an instruction or a micro-op.

    uop dst=0 src=1 wgt=2
    load.inp dram_base=0x1000 y_size=1 x_size=16 x_stride=16 push_next
    gemm uop_end=1 iter_out=1 iter_in=16 dst_factor_in=1 src_factor_in=1 pop_prev
    alu.add uop_end=1 iter_out=1 iter_in=16 use_imm imm=-3 push_next
    finish

Fields of one bit are bare words, and those that are 0 are left out. The memory of `load` and the operation of `alu` are behind a dot.
`#` begins a comment.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.vta.isa.program import Insn, Program, Uop
from tilewright.vta.isa.tables import FLAGS, INSTRUCTIONS, Field

_ALL = {i.name: (*i.fields, *FLAGS) for i in INSTRUCTIONS}
_CHOICE = {name: next((f for f in fields if f.choices), None) for name, fields in _ALL.items()}


def _word(field: Field, value: int) -> str:
    if field.width == "flag":
        return field.name
    return f"{field.name}={value:#x}" if field.width == "address" else f"{field.name}={value}"


def instruction_text(instruction: Insn) -> str:
    """An instruction as a line of assembly."""
    choice = _CHOICE[instruction.name]
    head = instruction.name
    if choice is not None and not (instruction.name == "store" and instruction.choice("memory") == "out"):
        head += "." + instruction.choice(choice.name)
    words = [_word(f, instruction[f.name]) for f in _ALL[instruction.name] if f is not choice and instruction[f.name]]
    return " ".join([head, *words])


def disassemble(program: Program) -> str:
    """A program as text, micro-ops first."""
    lines = [
        " ".join(["uop", *[f"{name}={value}" for name, value in uop._asdict().items() if value]])
        for uop in program.uops
    ]
    return "".join([line + "\n" for line in [*lines, *map(instruction_text, program.instructions)]])


def assemble(text: str) -> Program:
    """The program of a text. ValueError names the line, and what it cannot have."""
    program = Program()
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            _add(program, words)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return program


def _add(program: Program, words: list[str]) -> None:
    if words[0] == "uop":
        program.uops.append(Uop(**_values("uop", words[1:], dict.fromkeys(Uop._fields, False))))
        return
    name, dot, chosen = words[0].partition(".")
    if name not in _ALL:
        raise ValueError(f"there is no instruction {name}; there are uop, {', '.join(_ALL)}")
    choice = _CHOICE[name]
    values = {}
    if name == "store" and not dot:
        chosen = "out"
    if choice is not None:
        if chosen not in choice.choices:
            raise ValueError(f"{name} is written with one of {', '.join([f'{name}.{c}' for c in choice.choices])}")
        values[choice.name] = choice.choices.index(chosen)
    elif dot:
        raise ValueError(f"{name} has nothing behind a dot")
    fields = {f.name: f.width == "flag" for f in _ALL[name] if f is not choice}
    values |= _values(name, words[1:], fields)
    program.instructions.append(Insn(name, {k: v for k, v in values.items() if v}))


def _values(what: str, words: Iterable[str], fields: dict[str, bool]) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in words:
        name, equals, number = word.partition("=")
        if name not in fields:
            raise ValueError(f"{what} has no field {name}; it has {', '.join(fields)}")
        if name in found:
            raise ValueError(f"{name} is there twice")
        if not equals and not fields[name]:
            raise ValueError(f"{name} needs a value: {name}=0")
        try:
            found[name] = int(number, 0) if equals else 1
        except ValueError:
            raise ValueError(f"{name} is {number!r}, which is no integer") from None
    return found


__all__ = ["assemble", "disassemble", "instruction_text"]
