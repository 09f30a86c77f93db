"""Names that programs of the classic documentation use besides te, tir and relay: intrinsics of one's own, values, helpers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te
from tilewright.contrib import cblas, clang, random
from tilewright.ir import register_intrin_lowering, register_op_attr


def run(inputs: list[Any], output: Any, *arrays: np.ndarray) -> np.ndarray:
    built = tvm.build(te.create_schedule(output.op), [*inputs, output])
    out = tvm.nd.array(np.zeros([int(d) for d in arrays[0].shape], output.dtype))
    built(*[tvm.nd.array(a) for a in arrays], out)
    return out.numpy()


def test_intrinsic_of_ones_own() -> None:
    register_op_attr("tir.halved", "TCallEffectKind", tvm.tir.CallEffectKind.Pure)
    register_intrin_lowering("tir.halved", target="llvm", f=lambda call: call.args[0] * tvm.tir.const(0.5, call.dtype))
    a = te.placeholder((8,), name="a")
    b = te.compute((8,), lambda i: tvm.tir.call_intrin("float32", "tir.halved", a[i]), name="b")
    x = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(run([a], b, x), x / 2)

    with pytest.raises(ValueError, match="tir.halved has an attribute llvm.FLowerIntrin of level 10 already"):
        register_intrin_lowering("tir.halved", target="llvm", f=lambda call: call.args[0])

    @register_intrin_lowering("tir.halved", target="llvm", level=11)
    def rule(call: Any) -> Any:
        return tvm.tir.call_intrin("float32", "tir.quartered", call.args[0]) * tvm.tir.const(2, "float32")

    @register_intrin_lowering("tir.quartered", target="default")
    def other(call: Any) -> Any:
        return call.args[0] * tvm.tir.const(0.25, "float32")

    np.testing.assert_array_equal(run([a], b, x), x / 2)


def test_attribute_levels() -> None:
    register_op_attr("tir.test_levels", "TNote", "high", level=20)
    register_op_attr("tir.test_levels", "TNote", "low", level=5)
    assert tvm.ir.Op.get("tir.test_levels").get_attr("TNote") == "high"


@pytest.mark.parametrize("transa", [False, True])
@pytest.mark.parametrize("transb", [False, True])
def test_blas(transa: bool, transb: bool) -> None:
    a = te.placeholder((6, 4) if transa else (4, 6), name="a")
    b = te.placeholder((5, 6) if transb else (6, 5), name="b")
    c = cblas.matmul(a, b, transa, transb)
    f = tvm.build(te.create_schedule(c.op), [a, b, c])
    rng = np.random.default_rng(0)
    x = rng.random([int(d) for d in a.shape], "float32")
    y = rng.random([int(d) for d in b.shape], "float32")
    out = tvm.nd.empty((4, 5))
    f(tvm.nd.array(x), tvm.nd.array(y), out)
    np.testing.assert_allclose(out.numpy(), (x.T if transa else x) @ (y.T if transb else y), rtol=1e-6)
    assert tvm.get_global_func("tvm.contrib.cblas.batch_matmul", True) is not None


def test_random() -> None:
    random.seed(4)
    whole, even, bell = random.randint(-3, 3, (1000,)), random.uniform(2, 4, (1000,)), random.normal(1, 2, (1000,))
    f = tvm.build(te.create_schedule([whole.op, even.op, bell.op]), [whole, even, bell])
    out = [tvm.nd.empty((1000,), t.dtype) for t in (whole, even, bell)]
    f(*out)
    w, e, b = [o.numpy() for o in out]
    assert set(w) == {-3, -2, -1, 0, 1, 2}
    assert e.min() >= 2 and e.max() < 4 and abs(e.mean() - 3) < 0.1
    assert abs(b.mean() - 1) < 0.3 and abs(b.std() - 2) < 0.2
    with pytest.raises(ValueError, match="randint makes integers, but dtype is float32"):
        random.randint(0, 2, (3,), "float32")


IMPORTED = """
define i32 @add_seven(ptr %out, ptr %in, i32 %n) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr float, ptr %in, i32 %i
  %to = getelementptr float, ptr %out, i32 %i
  %x = load float, ptr %from
  %y = fadd float %x, 7.0
  store float %y, ptr %to
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
"""


def calls_add_seven(code: str) -> Any:
    a = te.placeholder((8,), name="a")

    def body(ins: Any, outs: Any) -> Any:
        ib = tvm.tir.ir_builder.create()
        with ib.for_range(0, 1, name="once") as _:
            ib.scope_attr(te.var("code"), "pragma_import_llvm", code)
            ib.emit(tvm.tir.call_extern("int32", "add_seven", outs[0].access_ptr("w"), ins[0].access_ptr("r"), 8))
        return ib.get()

    b = te.extern((8,), [a], body, name="b", dtype="float32")
    return tvm.build(te.create_schedule(b.op), [a, b])


@pytest.mark.parametrize("form", ["text", "file"])
def test_code_is_imported(form: str, tmp_path: Any) -> None:
    path = tmp_path / "seven.ll"
    path.write_text(IMPORTED)
    f = calls_add_seven(IMPORTED if form == "text" else str(path))
    x, y = np.arange(8, dtype="float32"), tvm.nd.array(np.zeros(8, "float32"))
    f(tvm.nd.array(x), y)
    np.testing.assert_array_equal(y.numpy(), x + 7)


def test_code_that_cannot_be_imported() -> None:
    with pytest.raises(tvm.TVMError, match="import_llvm: LLVM cannot read the imported IR"):
        calls_add_seven("define nonsense")
    with pytest.raises(tvm.TVMError, match="import_llvm: LLVM cannot read the imported IR: .*nowhere.ll"):
        calls_add_seven("nowhere.ll")


def test_c_to_llvm() -> None:
    assert clang.find_clang()
    code = clang.create_llvm(
        'extern "C" int add_seven(float* out, float* in, int n) { for (int i = 0; i < n; ++i) out[i] = in[i] + 7; return 0; }'
    )
    f = calls_add_seven(code)
    x, y = np.arange(8, dtype="float32"), tvm.nd.array(np.zeros(8, "float32"))
    f(tvm.nd.array(x), y)
    np.testing.assert_array_equal(y.numpy(), x + 7)
    with pytest.raises(tvm.TVMError, match="(?s)compiling to LLVM IR failed:.*error"):
        clang.create_llvm("int f( {")


def test_values_devices_and_modules() -> None:
    assert tvm.nd.cuda(1) == tvm.cuda(1) and tvm.vpi(0).device_type == 9
    assert tvm.cpu().warp_size is None and tvm.hexagon(0).device_name is None
    assert tvm.runtime.String("a") == "a" and tvm.runtime.ShapeTuple([2, 3])[1] == 3
    assert isinstance(tvm.runtime.const(3, "int8"), tvm.tir.IntImm) and tvm.runtime.DataType("float32x4").lanes == 4
    view = (x := tvm.nd.array(np.arange(6, dtype="float32")))._create_view((2, 3))
    x[:] = 1.0
    np.testing.assert_array_equal(view.numpy(), np.ones((2, 3)))
    assert x._create_view((2,), "int32", 8).numpy().tolist() == [0x3F800000] * 2
    with pytest.raises(ValueError, match=r"a view of shape \(7,\) at byte 0 needs 28 bytes .* holds 24"):
        x._create_view((7,))
    f = tvm.build(te.create_prim_func([a := te.placeholder((4,)), te.compute((4,), lambda i: a[i] + 1.0)]))
    assert f.is_runnable and f.is_dso_exportable and f.format == "o" and not f.is_device_module
    assert tvm.convert(lambda x: x + 1)(2) == 3
    func = te.create_prim_func([a, te.compute((4,), lambda i: a[i])])
    assert isinstance(func.params, tvm.ir.Array) and isinstance(func.buffer_map, tvm.ir.container.Map)
    from tilewright import _ffi

    assert _ffi.registry.get_global_func is tvm.get_global_func
