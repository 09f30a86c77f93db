"""Matrix units by CUDA's wmma: fragments, which a warp loads, multiplies and stores together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilewright.codegen.source.device.dialect import Refused, Rule
from tilewright.codegen.source.text.operands import Text
from tilewright.ir import DataType
from tilewright.tir import StringImm

if TYPE_CHECKING:
    from tilewright.codegen.source.cuda.dialect import Cuda
    from tilewright.codegen.source.device.kernel import KernelEmitter
    from tilewright.tir import Call, Var

SINCE = {"float16": 70, "float32": 70, "int8": 72, "uint8": 72, "int32": 72, "bfloat16": 80, "float64": 80}
"""Element type of fragments -> the first architecture that has them."""
_NARROW = {"int4": "s4", "uint4": "u4", "int1": "b1"}


def _used(dialect: Cuda, least: int, what: str) -> None:
    if dialect.arch < least:
        raise Refused(f"fragments of {what} need sm_{least}; give the target -arch=sm_{least} or a later one")
    dialect.prelude.line("#include <mma.h>")
    dialect.prelude.define("wmma", "using namespace nvcuda;")


def storage(
    dialect: Cuda, emitter: KernelEmitter, scope: str, dtype: DataType, name: str, count: int, var: Var
) -> str | None:
    """Declares fragments; None for scopes that are none of wmma's."""
    if not scope.startswith("wmma."):
        return None
    operand = scope.removeprefix("wmma.")
    shape, layout = emitter.marks.get((var, "fragment_shape")), emitter.marks.get((var, "fragment_layout"))
    if shape is None or (layout is None and operand != "accumulator"):
        raise Refused(f"{var.name} is in scope {scope}, but no call says what shape and layout its fragments have")
    m, n, k = [int(x) for x in shape.split(",")]
    sizes = {"matrix_a": m * k, "matrix_b": k * n, "accumulator": m * n}
    if operand not in sizes:
        raise Refused(f"wmma has no fragments {scope!r}; there are {', '.join([f'wmma.{s}' for s in sizes])}")
    _used(dialect, 75 if str(dtype) in _NARROW else SINCE.get(str(dtype), 70), str(dtype))
    element = (
        f"wmma::experimental::precision::{_NARROW[str(dtype)]}" if str(dtype) in _NARROW else dialect.scalar(dtype)
    )
    by = f", wmma::{layout}" if operand != "accumulator" else ""
    many = f"[{max(count // sizes[operand], 1)}]"
    return f"wmma::fragment<wmma::{operand}, {m}, {n}, {k}, {element}{by}> {name}{many};"


def _fragment(emitter: KernelEmitter, data: Any, index: Any) -> str:
    return f"{emitter.stored(data).name}[{emitter.index(index)}]"


def _layout(e: Call) -> str:
    layout = e.args[7]
    if not isinstance(layout, StringImm) or layout.value not in ("row_major", "col_major"):
        raise Refused(f'the layout of a matrix is "row_major" or "col_major", but {layout} was given')
    return layout.value


def _fill(dialect: Cuda, emitter: KernelEmitter, e: Call) -> Text:
    value = emitter.expr(e.args[5])
    return emitter.done(f"wmma::fill_fragment({_fragment(emitter, e.args[0], e.args[4])}, {value});")


def _load(dialect: Cuda, emitter: KernelEmitter, e: Call) -> Text:
    fragment, (place, stride) = _fragment(emitter, e.args[0], e.args[4]), map(emitter.expr, e.args[5:7])
    by = f", wmma::mem_{_layout(e)}" if emitter.stored(e.args[0]).scope == "wmma.accumulator" else ""  # type: ignore[arg-type]
    return emitter.done(f"wmma::load_matrix_sync({fragment}, {place}, {stride}{by});")


def _store(dialect: Cuda, emitter: KernelEmitter, e: Call) -> Text:
    fragment, (place, stride) = _fragment(emitter, e.args[0], e.args[4]), map(emitter.expr, e.args[5:7])
    return emitter.done(f"wmma::store_matrix_sync({place}, {fragment}, {stride}, wmma::mem_{_layout(e)});")


def _multiply(dialect: Cuda, emitter: KernelEmitter, e: Call) -> Text:
    parts = [_fragment(emitter, e.args[i], e.args[i + 1]) for i in range(0, 8, 2)]
    word = "bmma_sync" if e.intrinsic == "tvm_bmma_sync" else "mma_sync"
    return emitter.done(f"wmma::{word}({', '.join(parts)});")


RULES: Mapping[str, Rule] = {
    "tvm_fill_fragment": _fill,
    "tvm_load_matrix_sync": _load,
    "tvm_store_matrix_sync": _store,
    "tvm_mma_sync": _multiply,
    "tvm_bmma_sync": _multiply,
}

__all__ = ["RULES", "storage"]
