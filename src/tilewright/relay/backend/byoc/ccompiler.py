"""The code generator `relay.ext.ccompiler`, the example of classic TVM: sums, differences and products as C source."""

from __future__ import annotations

from typing import Any

from tilewright.relay.backend.byoc.c_codegen import CSourceCodegen, CTensor
from tilewright.relay.expr import Function
from tilewright.runtime import Module


def strides(t: CTensor, out: CTensor) -> list[int]:
    """The strides of an operand along the result's axes, in elements; 0 for axes along which it is broadcast."""
    found: list[int] = []
    step = 1
    for extent in reversed(t.shape):
        found.append(0 if extent == 1 else step)
        step *= extent
    return [*[0] * (len(out.shape) - len(found)), *reversed(found)]


def element(t: CTensor, out: CTensor) -> str:
    """The C expression of an operand's element at the indices of the loops."""
    terms = [f"i{axis}" if s == 1 else f"i{axis} * {s}" for axis, s in enumerate(strides(t, out)) if s]
    return f"{t}[{' + '.join(terms) or '0'}]"


def binary(sign: str) -> Any:
    """The body of an operator on two operands."""

    def body(call: Any, left: CTensor, right: CTensor, out: CTensor) -> str:
        lines = [f"for (int i{axis} = 0; i{axis} < {extent}; ++i{axis})" for axis, extent in enumerate(out.shape)]
        lines.append(f"{element(out, out)} = {element(left, out)} {sign} {element(right, out)};")
        return "\n".join([2 * k * " " + line for k, line in enumerate(lines)])

    return body


GENERATOR = CSourceCodegen("ccompiler", {"add": binary("+"), "subtract": binary("-"), "multiply": binary("*")})


def generate(func: Function) -> Module:
    """The module of the C source of a function."""
    return GENERATOR.generate(func)


__all__ = ["GENERATOR", "generate"]
