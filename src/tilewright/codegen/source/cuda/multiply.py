"""The PTX instruction mma: a warp multiplies tiles that are spread over its registers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilewright.codegen.source.cuda.types import INLINE
from tilewright.codegen.source.device.dialect import Refused, Rule
from tilewright.codegen.source.text.operands import UNARY, Text
from tilewright.ir import IntImm
from tilewright.tir import StringImm

if TYPE_CHECKING:
    from tilewright.codegen.source.cuda.dialect import Cuda
    from tilewright.codegen.source.device.kernel import KernelEmitter
    from tilewright.tir import Call

TYPES = {
    "fp16": ("f16", 16), "float16": ("f16", 16), "bf16": ("bf16", 16), "bfloat16": ("bf16", 16), "tf32": ("tf32", 32),
    "fp32": ("f32", 32), "float32": ("f32", 32), "fp64": ("f64", 64), "float64": ("f64", 64), "int8": ("s8", 8),
    "uint8": ("u8", 8), "int4": ("s4", 4), "uint4": ("u4", 4), "int1": ("b1", 1), "int32": ("s32", 32),
    "e4m3": ("e4m3", 8), "e5m2": ("e5m2", 8),
}  # fmt: skip
"""Name of an element type in programs -> (its name in PTX, bits)."""
_REGISTERS = {"f32": ("float", "f"), "f64": ("double", "d")}
"""Element type -> (type of a register in CUDA C, letter of assembly); others are kept in unsigned int."""


def _word(e: Any) -> str:
    return e.value if isinstance(e, StringImm) else str(e)


def _type(name: str) -> tuple[str, int]:
    found = TYPES.get(name)
    if found is None:
        raise Refused(f"mma has no elements of type {name!r}; it has {', '.join(TYPES)}")
    return found


def _register(kind: str) -> tuple[str, str]:
    return _REGISTERS.get(kind, ("unsigned int", "r"))


def _mma(dialect: Cuda, emitter: KernelEmitter, e: Call) -> Text:
    """ptx_mma and ptx_mma_sp: c += a * b."""
    sparse = e.intrinsic == "ptx_mma_sp"
    shape, a_layout, b_layout, *names = [_word(x) for x in e.args[:6]]
    found = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", shape)
    if found is None:
        raise Refused(f'the shape of an mma is written like "m16n8k16", but {shape!r} was given')
    m, n, k = map(int, found.groups())
    (a, a_bits), (b, b_bits), (c, c_bits) = map(_type, names)
    a_count = m * k * a_bits // (2 if sparse else 1) // 32 // max(_bits(a), 32)
    counts = a_count, k * n * b_bits // 32 // max(_bits(b), 32), m * n * c_bits // 32 // max(_bits(c), 32)
    rest = list(e.args[12:])
    metadata = [emitter.address(rest[0], rest[1]), emitter.expr(rest[2])] if sparse else []
    saturate = rest[3 if sparse else 0]
    operator = f".{_word(rest[1])}.popc" if not sparse and len(rest) > 1 else ""
    finite = ".satfinite" if isinstance(saturate, IntImm) and saturate.value and c == "s32" else ""
    code = f"mma{'.sp' if sparse else ''}.sync.aligned.{shape}.{a_layout}.{b_layout}{finite}.{c}.{a}.{b}.{c}{operator}"
    name = re.sub(r"\W", "_", code.replace(".sync.aligned", ""))
    _define(dialect, name, code, (a, b, c), counts, int(_word(rest[2])) if sparse else None)
    given = []
    for kind, const, place in ((c, "", 10), (a, "const ", 6), (b, "const ", 8)):
        pointer = emitter.address(e.args[place], e.args[place + 1])
        given.append(f"({const}{_register(kind)[0]}*){pointer.at(UNARY)}")
    if sparse:
        given.append(f"*(const unsigned int*){metadata[0].at(UNARY)}")
    return emitter.done(f"{name}({', '.join(given)});")


def _bits(kind: str) -> int:
    return 64 if kind == "f64" else 32


def _define(
    dialect: Cuda, name: str, code: str, kinds: tuple[str, str, str], counts: tuple[int, int, int], selector: int | None
) -> None:
    a, b, c = kinds
    groups, at = [], 0
    for count in (counts[2], counts[0], counts[1]):
        groups.append("{" + ", ".join([f"%{at + j}" for j in range(count)]) + "}")
        at += count
    d, left, right = groups
    outputs = ", ".join([f'"+{_register(c)[1]}"(c[{j}])' for j in range(counts[2])])
    given = ((a, "a", counts[0]), (b, "b", counts[1]))
    inputs = [f'"{_register(kind)[1]}"({letter}[{j}])' for kind, letter, count in given for j in range(count)]
    last, params = "", f"{_register(c)[0]}* c, const {_register(a)[0]}* a, const {_register(b)[0]}* b"
    if selector is not None:
        last, params = f", %{at}, {selector}", f"{params}, unsigned int metadata"
        inputs.append('"r"(metadata)')
    text = f"{code} {d}, {left}, {right}, {d}{last};"
    dialect.prelude.define(
        f"{name}{selector or ''}",
        f"// c += a * b on tiles in the registers of a warp.\n{INLINE} void {name}({params}) {{\n"
        f'  asm volatile("{text}"\n    : {outputs}\n    : {", ".join(inputs)});\n}}',
    )


def _fill(dialect: Cuda, emitter: KernelEmitter, e: Call) -> Text:
    size, local, offset = e.args
    place = emitter.address(local, offset)
    emitter.line(f"for (int i = 0; i < {emitter.index(size)}; ++i) {{")
    emitter.line(f"  ({place})[i] = 0;")
    return emitter.done("}")


def _store(dialect: Cuda, emitter: KernelEmitter, e: Call) -> Text:
    """Stores the accumulators of two products m16n8 as a tile of 16 x 16: each thread has 8 elements of it."""
    m, n, to, source, offset, stride = e.args
    if [getattr(x, "value", 0) for x in (m, n)] != [16, 16]:
        raise Refused(f"mma_store stores tiles of 16 x 16, but {m} x {n} was given")
    target, registers = emitter.address(to, IntImm("int32", 0)), emitter.address(source, offset)
    lane, step = emitter.names.fresh("lane"), emitter.index(stride)
    emitter.line(f"const int {lane} = threadIdx.x % 32;")
    emitter.line("for (int i = 0; i < 8; ++i) {")
    row, column = f"(i % 4 / 2 * 8 + {lane} / 4)", f"i / 4 * 8 + {lane} % 4 * 2 + i % 2"
    emitter.line(f"  ({target})[{row} * {step.at(80)} + {column}] = ({registers})[i];")
    return emitter.done("}")


RULES: Mapping[str, Rule] = {"ptx_mma": _mma, "ptx_mma_sp": _mma, "mma_fill": _fill, "mma_store": _store}

__all__ = ["RULES", "TYPES"]
