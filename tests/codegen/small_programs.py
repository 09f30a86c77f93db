"""Builds small programs and runs them natively and in the interpreter."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.codegen import interp
from tilewright.codegen.backend import AOT, back_end_of
from tilewright.codegen.interp.values import np_type
from tilewright.ir import DataType, IRModule
from tilewright.target import Target
from tilewright.tir import Buffer, BufferLoad, BufferStore, For, PrimFunc, Ramp, Stmt, Var, decl_buffer

Array = np.ndarray[Any, Any]


def native(
    func: PrimFunc | IRModule, arrays: Sequence[Array], target: str = "llvm", opt_level: int = 1, entry: str = "main"
) -> int:
    """Runs a function (exported as a kernel) on arrays, in place; its return code."""
    mod = func if isinstance(func, IRModule) else kernels({entry: func})
    return loaded(mod, [entry], target, opt_level)(entry, arrays)


def kernels(functions: Mapping[str, PrimFunc]) -> IRModule:
    """A module that exports functions as kernels."""
    return IRModule({n: f.with_attr("calling_conv", AOT).with_attr("global_symbol", n) for n, f in functions.items()})


def loaded(
    mod: IRModule, entries: Sequence[str], target: str = "llvm", opt_level: int = 1
) -> Callable[[str, Sequence[Array]], int]:
    """A module's kernels, compiled and loaded together: what runs one on arrays, in place, and answers its return code."""
    kind = Target(target)
    back_end = back_end_of(kind)
    code = back_end.emit(mod, kind)._replace(effort=opt_level)
    library = back_end.load([back_end.compile(code, kind)], entries)

    def run(entry: str, arrays: Sequence[Array]) -> int:
        args = (ctypes.c_void_p * max(len(arrays), 1))(*[a.ctypes.data for a in arrays])
        return int(ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(library.symbols[entry])(args))

    return run


def aligned(values: Any, dtype: str) -> Array:
    """A copy at a 64-byte boundary."""
    source = np.ascontiguousarray(values, np_type(DataType(dtype)))
    raw = np.zeros(source.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    result = raw[start : start + source.nbytes].view(source.dtype).reshape(source.shape)
    result[...] = source
    return result


def elementwise(inputs: Sequence[str], output: str, count: int, lanes: int, compute: Callable[..., Any]) -> PrimFunc:
    """out[i] = compute(in0[i], in1[i], ...) for `count` elements, `lanes` at a time."""
    buffers = [decl_buffer((count,), dtype, f"in{k}") for k, dtype in enumerate(inputs)]
    out = decl_buffer((count,), output, "out")
    i = Var("i")
    index: Any = i if lanes == 1 else Ramp(i * lanes, 1, lanes)
    value = compute(*[BufferLoad(b, (index,)) for b in buffers])
    body: Stmt = For(i, 0, count // lanes, 0, BufferStore(out, value, (index,)))
    return PrimFunc([*buffers, out], body, attrs={"global_symbol": "main"})


def both(func: PrimFunc, inputs: Sequence[Array], output: str, count: int, target: str = "llvm") -> tuple[Array, Array]:
    """(native, interpreted) results of an elementwise function."""
    results = []
    for runner in (lambda args: native(func, args, target), lambda args: interp.run(func, args)):
        out = aligned(np.zeros(count, np.uint8), "uint8") if output == "uint8" else aligned(np.zeros(count), output)
        runner([*inputs, out])
        results.append(out)
    return results[0], results[1]


def same(a: Array, b: Array) -> None:
    """Bitwise equality, all NaNs being equal."""
    if a.dtype.kind in "iub":
        np.testing.assert_array_equal(a, b)
    else:
        np.testing.assert_array_equal(a.astype(np.float64), b.astype(np.float64))


def ulps(got: Array, wide: Array) -> float:
    """The largest error of float32 results in units of the last place; NaN and infinity must agree."""
    with np.errstate(all="ignore"):
        expected = wide.astype(np.float32)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(wide))
        live = np.isfinite(expected) & np.isfinite(got)
        odd = ~live & ~np.isnan(wide)
        # At the edge of the range one ulp decides between the largest number and infinity.
        edge = np.abs(wide[odd]) > 3.4028e38
        np.testing.assert_array_equal(got[odd][~edge], expected[odd][~edge])
        unit = np.maximum(np.spacing(np.abs(expected[live])), np.float32(1.401298464324817e-45)).astype(np.float64)
        return float(np.max(np.abs(got[live].astype(np.float64) - wide[live]) / unit, initial=0.0))


def buffer1d(name: str, size: int, dtype: str = "float32", scope: str = "") -> Buffer:
    return decl_buffer((size,), dtype, name, scope=scope)
