"""Metal's matrices of a simdgroup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilewright.codegen.source.device.dialect import Rule
from tilewright.codegen.source.device.refused import Refused
from tilewright.codegen.source.text.operands import Text
from tilewright.ir import DataType, IntImm

if TYPE_CHECKING:
    from tilewright.codegen.source.device.kernel import KernelEmitter
    from tilewright.codegen.source.metal.dialect import Metal
    from tilewright.tir import Call

SCOPE = "metal.simdgroup"


def storage(dialect: Metal, scope: str, dtype: DataType, name: str, count: int) -> str | None:
    """Declares matrices of 8 x 8 elements; None for other scopes."""
    if scope != SCOPE:
        return None
    if str(dtype) not in ("float16", "float32"):
        raise Refused(f"matrices of a simdgroup have float16 or float32 elements, not {dtype}")
    dialect.prelude.line("#include <metal_simdgroup_matrix>")
    return f"simdgroup_{dialect.scalar(dtype)}8x8 {name}[{max(count // 64, 1)}];"


def _matrix(emitter: KernelEmitter, data: Any, index: Any) -> str:
    return f"{emitter.stored(data).name}[{emitter.index(index)}]"


def _fill(dialect: Metal, emitter: KernelEmitter, e: Call) -> Text:
    matrix, value = _matrix(emitter, e.args[0], e.args[1]), emitter.expr(e.args[2])
    kind = emitter.stored(e.args[0]).element  # type: ignore[arg-type]
    return emitter.done(f"{matrix} = make_filled_simdgroup_matrix<{kind}, 8, 8>({value});")


def _move(dialect: Metal, emitter: KernelEmitter, e: Call) -> Text:
    """simdgroup_load and simdgroup_store of (matrix, index, pointer, stride, columns, rows, transpose)."""
    matrix, place, stride = _matrix(emitter, e.args[0], e.args[1]), emitter.expr(e.args[2]), emitter.expr(e.args[3])
    transposed = isinstance(e.args[6], IntImm) and bool(e.args[6].value)
    return emitter.done(f"{e.intrinsic}({matrix}, {place}, {stride}, 0, {'true' if transposed else 'false'});")


def _multiply(dialect: Metal, emitter: KernelEmitter, e: Call) -> Text:
    parts = [_matrix(emitter, e.args[i], e.args[i + 1]) for i in range(0, 8, 2)]
    return emitter.done(f"simdgroup_multiply_accumulate({', '.join(parts)});")


RULES: Mapping[str, Rule] = {
    "make_filled_simdgroup_matrix": _fill,
    "simdgroup_load": _move,
    "simdgroup_store": _move,
    "simdgroup_multiply_accumulate": _multiply,
}

__all__ = ["RULES", "storage"]
