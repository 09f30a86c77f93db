"""Types that targets lack, and host and device apart; checked by running."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.tir_transform.thread.test_threads import allocate, flat, gemm, nodes, outputs, shared
from tilewright import te, tir
from tilewright.codegen.interp import run
from tilewright.ir import IRModule
from tilewright.node import post_order_visit
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import transform as T
from tilewright.tir.analysis import verify_well_formed


def narrow_program(dtype: str) -> IRModule:
    a, b = te.placeholder((64,), dtype, "A"), te.placeholder((64,), dtype, "B")
    k = te.reduce_axis((0, 64), name="k")

    def body(i: Any) -> Any:
        value = tir.max(a[i], b[i]) * a[i] - b[i] / tir.const(3.0, dtype)
        return tir.Select(a[i] < b[i], value, tir.exp(a[i])) + a[i].astype("int32").astype(dtype)

    c = te.compute((64,), body, name="C")
    d = te.compute((1,), lambda i: te.sum(c[k], axis=k), name="D")
    e = te.compute((64,), lambda i: c[i] + d[0], name="E")
    func = te.create_prim_func([a, b, e])
    return IRModule({"main": func})


def arithmetic_types(mod: IRModule) -> set[str]:
    kinds = (tir.Add, tir.Sub, tir.Mul, tir.Div, tir.Max, tir.LT)
    return {str(n.a.dtype) for kind in kinds for n in nodes(mod, kind) if not n.a.dtype.is_int}


@pytest.mark.parametrize(
    ("dtype", "make"),
    [
        ("bfloat16", T.BF16ComputeLegalize),
        ("e4m3_float8", T.FP8ComputeLegalize),
        ("e5m2_float8", T.FP8ComputeLegalize),
    ],
)
def test_compute_in_a_wider_type(dtype: str, make: Any) -> None:
    mod = narrow_program(dtype)
    kind = {"bfloat16": "bfloat16", "e4m3_float8": "float8_e4m3fn", "e5m2_float8": "float8_e5m2"}[dtype]
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(-2, 2, 64).astype("float32").astype(getattr(ml_dtypes, kind)) for _ in range(2))
    new = make()(mod)
    assert arithmetic_types(mod) == {dtype} and arithmetic_types(new) == {"float32"}
    expected = outputs(mod, x, y, np.zeros_like(x))
    np.testing.assert_array_equal(outputs(new, x, y, np.zeros_like(x)).astype("float32"), expected.astype("float32"))
    assert make()(new) is new


def test_bfloat16_as_integers() -> None:
    mod = flat(narrow_program("bfloat16"))
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(-2, 2, 64).astype(ml_dtypes.bfloat16) for _ in range(2))
    x[:3] = [np.inf, 0.0, -0.0]
    expected = outputs(mod, x, y, np.zeros_like(x))
    new = T.BF16StorageLegalize()(T.BF16ComputeLegalize()(mod))
    found: set[str] = set()
    post_order_visit(new["main"].body, lambda n: found.add(str(n.dtype)) if hasattr(n, "dtype") else None)
    assert "bfloat16" not in found and "uint16" in found
    verify_well_formed(new)
    got = outputs(new, x.view("uint16"), y.view("uint16"), np.zeros(64, "uint16")).view(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(got.astype("float32"), expected.astype("float32"))


def test_rounding_of_every_kind() -> None:
    a = te.placeholder((8,), "float32", "A")
    b = te.compute((8,), lambda i: a[i].astype("bfloat16"), name="B")
    mod = T.BF16StorageLegalize()(IRModule({"main": te.create_prim_func([a, b])}))
    bits = np.array(
        [0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7FFFFFFF, 0xFF800000, 0x00000001, 0x80000000], "uint32"
    )
    values = bits.view("float32")
    got = outputs(mod, values, np.zeros(8, "uint16")).view(ml_dtypes.bfloat16).astype("float32")
    np.testing.assert_array_equal(got, values.astype(ml_dtypes.bfloat16).astype("float32"))


def test_host_and_device() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (32, 32)).astype("float32") for _ in range(2))
    mod = T.BindTarget(Target("cuda", host="llvm"))(T.ThreadSync("shared")(flat(gemm().mod)))
    split = T.SplitHostDevice()(T.AnnotateDeviceRegions()(mod))
    names = sorted(g.name_hint for g in split.functions)
    assert names == ["main", "main_kernel"]
    verify_well_formed(split)
    host, kernel = split["main"], split["main_kernel"]
    assert not [n for n in nodes(split, tir.AttrStmt) if n.attr_key == "thread_extent"]
    assert isinstance(host.body, tir.Evaluate) and [p.name for p in kernel.params] == ["A", "B", "C"]
    assert kernel.attrs["target"].host is None and kernel.attrs["tir.is_global_func"]
    c = np.zeros((32, 32), "float32")
    run(split, [a, b, c], entry="main")
    np.testing.assert_array_equal(c, a @ b)
    scoped = T.DecorateDeviceScope()(IRModule({"main": kernel}))
    assert scoped["main"].body.attr_key == "device_scope" and T.DecorateDeviceScope()(scoped) is scoped


def test_regions_need_a_target() -> None:
    body = allocate(shared("S", 1), tir.Evaluate(tir.const(0, "int32")))
    with pytest.raises(TVMError, match="AnnotateDeviceRegions: a function has no target; run BindTarget first"):
        T.AnnotateDeviceRegions()(IRModule({"main": tir.PrimFunc([], body)}))
