"""Bytecode: instructions with their layouts, functions, liveness of registers, and the bytes that the runtime reads."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence

from tilewright.ir import DataType
from tilewright.runtime import Device

LAYOUTS = {
    "ret": "s",
    "move": "ds",
    "fatal": "m",
    "goto": "t",
    "if": "st",
    "if_tag": "sxt",
    "get_field": "dsn",
    "alloc_adt": "dxS",
    "alloc_closure": "dcS",
    "invoke": "dfS",
    "tail_invoke": "fS",
    "invoke_closure": "dsS",
    "tail_invoke_closure": "sS",
    "kernel": "kSS",
    "alloc_static": "dY",
    "alloc": "dyS",
    "reshape_static": "dsY",
    "reshape": "dsS",
    "shape_of": "dsn",
    "int": "dosss",
    "load_int": "dxx",
    "load_element": "dss",
    "ref_new": "ds",
    "ref_read": "ds",
    "ref_write": "ss",
    "kill": "R",
    "need": "smS",
    "part_static": "dsnY",
    "copy": "ss",
}
"""The operands after the opcode of each instruction: d register written, s operand (below 0: constant -1 - i), S and R counted operands
and registers, t target, f called function, c function of a closure, k kernel, m message, y and Y types, n and x numbers,
o operation on sizes. native/src/vm/program.h has the same table."""

OPCODES = {name: i for i, name in enumerate(LAYOUTS)}
INT_OPS = ("add", "sub", "mul", "floordiv", "floormod", "min", "max", "eq", "lt", "select")
ENDS = frozenset(("ret", "fatal", "goto", "tail_invoke", "tail_invoke_closure"))
NUMBER = "\x01"
"""Marks the place of a number in a message of `need`."""
MAGIC = 0x344D56776C6974

Operand = int | list[int]


class Label:
    """A place in a function's code."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = -1


class Instruction:
    """One instruction: its name, and the operands of its layout. Jumps have a Label."""

    __slots__ = ("name", "operands")

    def __init__(self, name: str, *operands: Operand | Label) -> None:
        self.name, self.operands = name, operands

    def _kinds(self) -> Iterator[tuple[str, Operand | Label]]:
        return zip(LAYOUTS[self.name], self.operands, strict=True)

    @property
    def uses(self) -> list[int]:
        """The registers that are read."""
        found: list[int] = []
        for kind, value in self._kinds():
            if kind in "sS":
                found += _numbers(value)
        return [r for r in found if r >= 0]

    @property
    def writes(self) -> list[int]:
        """The registers that are written."""
        return [v for kind, value in self._kinds() if kind == "d" for v in _numbers(value)]

    @property
    def target(self) -> Label | None:
        """The label of a jump; None for other instructions."""
        return next((v for v in self.operands if isinstance(v, Label)), None)

    def words(self) -> list[int]:
        """The words of the instruction. Labels must be placed."""
        out = [OPCODES[self.name]]
        for value in self.operands:
            if isinstance(value, Label):
                out.append(value.at)
            elif isinstance(value, list):
                out += [len(value), *value]
            else:
                out.append(value)
        return out

    def size(self) -> int:
        """The number of words."""
        return 1 + sum([1 + len(v) if isinstance(v, list) else 1 for v in self.operands])

    def text(self, program: Program) -> str:
        """The instruction as readable text: `invoke $3, @f($1, $2)`."""
        parts = []
        for kind, value in self._kinds():
            if isinstance(value, Label):
                parts.append(f"-> {value.at}")
            elif isinstance(value, list):
                parts.append(f"({', '.join([_operand(v) for v in value])})")
            elif kind == "d":
                parts.append(f"${value}")
            elif kind == "s":
                parts.append(_operand(value))
            elif kind in "fc":
                parts.append(f"@{program.functions[value].name}")
            elif kind == "k":
                parts.append(program.kernels[value][0])
            elif kind == "m":
                parts.append(repr(program.messages[value]))
            elif kind in "yY":
                parts.append(program.type_text(value))
            elif kind == "o":
                parts.append(INT_OPS[value])
            else:
                parts.append(str(value))
        return f"{self.name} {', '.join(parts)}"


def _numbers(value: Operand | Label) -> list[int]:
    """The numbers of an operand, of which a label has none yet."""
    return value if isinstance(value, list) else [value] if isinstance(value, int) else []


def _operand(register: int) -> str:
    return f"${register}" if register >= 0 else f"const[{-1 - register}]"


class TensorSpec:
    """The dtype and shape of a tensor, with -1 for dynamic dimensions, and the number of its device."""

    __slots__ = ("device", "dtype", "shape")

    def __init__(self, dtype: DataType, shape: tuple[int, ...], device: int = 0) -> None:
        self.dtype, self.shape, self.device = dtype, shape, device

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorSpec):
            return False
        return self.dtype == other.dtype and self.shape == other.shape and self.device == other.device

    def __hash__(self) -> int:
        return hash((str(self.dtype), self.shape, self.device))

    def __str__(self) -> str:
        dims = ", ".join(["?" if d < 0 else str(d) for d in self.shape])
        return f"{self.dtype}[{dims}]"


class VMFunction:
    """The code of a function. The first registers are its parameters. params: (name, type index or -1)."""

    def __init__(self, name: str, params: Sequence[tuple[str, int]]) -> None:
        self.name, self.params = name, list(params)
        self.code: list[Instruction | Label] = []
        self.registers = len(self.params)

    def register(self) -> int:
        """A new register."""
        self.registers += 1
        return self.registers - 1

    def emit(self, name: str, *operands: Operand | Label) -> None:
        """Adds an instruction."""
        self.code.append(Instruction(name, *operands))

    def place(self, label: Label) -> None:
        """Puts a label before the next instruction."""
        self.code.append(label)

    def free_dead_registers(self) -> None:
        """Inserts a `kill` after the last use of each register, so that memory is freed as early as possible.

        All jumps go forward, so one walk from the end finds the live registers before every instruction."""
        alive_at: list[set[int]] = [set()] * (len(self.code) + 1)
        at_label: dict[Label, set[int]] = {}
        for i in range(len(self.code) - 1, -1, -1):
            item, alive = self.code[i], alive_at[i + 1]
            if isinstance(item, Label):
                alive_at[i] = at_label[item] = alive
                continue
            if item.name in ENDS:
                alive = set()
            if item.target is not None:
                alive = alive | at_label[item.target]
            alive_at[i] = (alive - set(item.writes)) | set(item.uses)
        # A register that is dead on one way to a label is killed there, since the other way may need it.
        entering: dict[Label, set[int]] = {}
        for i, item in enumerate(self.code):
            if isinstance(item, Instruction) and item.target is not None:
                entering.setdefault(item.target, set()).update(alive_at[i] - at_label[item.target])
        code: list[Instruction | Label] = []
        unused = set(range(len(self.params))) - alive_at[0]
        if unused:
            code.append(Instruction("kill", sorted(unused)))
        for i, item in enumerate(self.code):
            code.append(item)
            if isinstance(item, Label):
                dead = entering.get(item, set())
            elif item.name in ENDS:
                continue
            else:
                dead = (alive_at[i] | set(item.writes)) - alive_at[i + 1]
            if dead:
                code.append(Instruction("kill", sorted(dead)))
        self.code = code


class Program:
    """Everything that the runtime reads, except for the machine code of the kernels and the bytes of the constants."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self.devices = list(devices)
        self.types: list[TensorSpec] = []
        self.messages: list[str] = []
        self.kernels: list[tuple[str, int]] = []
        """(name, number of the device) of each kernel."""
        self.constants: list[tuple[int, int]] = []
        self.functions: list[VMFunction] = []
        self._types: dict[TensorSpec, int] = {}

    def type_index(self, spec: TensorSpec) -> int:
        """The index of a type in the table of types."""
        if spec not in self._types:
            self._types[spec] = len(self.types)
            self.types.append(spec)
        return self._types[spec]

    def type_text(self, index: int) -> str:
        """A type as readable text."""
        spec = self.types[index]
        return f"{spec} on {self.devices[spec.device]}" if spec.device else str(spec)

    def message(self, text: str) -> int:
        """The index of a message in the table of messages."""
        if text not in self.messages:
            self.messages.append(text)
        return self.messages.index(text)

    def layout(self) -> list[tuple[VMFunction, int, int]]:
        """Places all labels. Returns each function with its begin and end, in words."""
        at, placed = 0, []
        for f in self.functions:
            begin = at
            for item in f.code:
                if isinstance(item, Label):
                    item.at = at
                else:
                    at += item.size()
            placed.append((f, begin, at))
        return placed

    def to_bytes(self, dtype_code: Callable[[DataType], tuple[int, int, int]]) -> bytes:
        """The bytecode. dtype_code: gives the DLPack code, bits and lanes of a dtype."""
        placed = self.layout()
        out = _Writer()
        out.word(len(self.types))
        for spec in self.types:
            out.words(*dtype_code(spec.dtype), spec.device, len(spec.shape), *spec.shape)
        out.word(len(self.messages))
        for text in self.messages:
            out.text(text)
        out.word(len(self.kernels))
        for name, device in self.kernels:
            out.text(name)
            out.word(device)
        out.word(len(self.constants))
        for type_index, offset in self.constants:
            out.words(type_index, offset)
        out.word(len(placed))
        for f, begin, end in placed:
            out.text(f.name)
            out.word(len(f.params))
            for name, type_index in f.params:
                out.text(name)
                out.word(type_index)
            out.words(f.registers, begin, end)
        code = [w for f, _, _ in placed for item in f.code if isinstance(item, Instruction) for w in item.words()]
        out.word(len(code))
        out.words(*code)
        return struct.pack("<qQ", MAGIC, checksum(out.data)) + bytes(out.data)

    def text(self) -> str:
        """The listing of all functions."""
        lines: list[str] = []
        for f, begin, _ in self.layout():
            params = ", ".join([f"${i} {name}" for i, (name, _) in enumerate(f.params)])
            lines.append(f"@{f.name}({params}) registers={f.registers}")
            at = begin
            for item in f.code:
                if isinstance(item, Instruction):
                    lines.append(f"{at:5}: {item.text(self)}")
                    at += item.size()
            lines.append("")
        return "\n".join(lines)


def checksum(data: bytes | bytearray) -> int:
    """FNV-1a over words of 8 bytes (http://www.isthe.com/chongo/tech/comp/fnv), which detects damaged files."""
    value = 0xCBF29CE484222325
    for (word,) in struct.iter_unpack("<Q", data):
        value = ((value ^ word) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


class _Writer:
    """Writes little-endian words of 8 bytes, and texts padded to words."""

    def __init__(self) -> None:
        self.data = bytearray()

    def word(self, value: int) -> None:
        self.data += struct.pack("<q", value)

    def words(self, *values: int) -> None:
        self.data += struct.pack(f"<{len(values)}q", *values)

    def text(self, value: str) -> None:
        data = value.encode()
        self.word(len(data))
        self.data += data + bytes(-len(data) % 8)
