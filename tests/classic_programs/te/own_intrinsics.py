"""Intrinsics: math, C functions, rules of one's own for one target, and what te and tir offer by name."""

import math

import numpy as np
import tvm
import tvm.testing
from tvm import te, tir
from tvm.ir import register_intrin_lowering, register_op_attr

n = te.var("n")
A = te.placeholder((n,), name="A")
x = np.linspace(0.05, 0.95, 31).astype("float32")


def run(f, dtype="float32", rtol=1e-5):
    B = te.compute(A.shape, lambda i: f(A[i]), name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(B.op.axis[0], factor=8)[1])
    out = tvm.nd.array(np.zeros(x.shape, B.dtype))
    tvm.build(s, [A, B], "llvm", name="f")(tvm.nd.array(x), out)
    return out.numpy()


REFERENCES = {
    "exp": np.exp, "tanh": np.tanh, "log": np.log, "log2": np.log2, "log10": np.log10, "sqrt": np.sqrt, "floor": np.floor,
    "ceil": np.ceil, "round": np.rint, "trunc": np.trunc, "abs": np.abs, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sinh": np.sinh, "cosh": np.cosh, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh,
    "atanh": np.arctanh, "erf": np.vectorize(math.erf), "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "rsqrt": lambda v: 1 / np.sqrt(v), "nearbyint": np.rint, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
}  # fmt: skip
for name, reference in REFERENCES.items():
    tvm.testing.assert_allclose(run(getattr(te, name)), reference(x), rtol=2e-5, atol=1e-6)
for name, reference in {"log1p": np.log1p, "exp2": np.exp2}.items():
    tvm.testing.assert_allclose(run(getattr(tir, name)), reference(x), rtol=2e-5, atol=1e-6)
for name, reference in {"power": np.power, "fmod": np.fmod}.items():
    tvm.testing.assert_allclose(run(lambda v: getattr(te, name)(v + 1, v)), reference(x + 1, x), rtol=1e-4)
for name, reference in {"atan2": np.arctan2, "hypot": np.hypot, "copysign": np.copysign}.items():
    tvm.testing.assert_allclose(run(lambda v: getattr(tir, name)(v, v + 1)), reference(x, x + 1), rtol=1e-4)

tvm.testing.assert_allclose(run(lambda v: tir.call_pure_extern("float32", "cbrtf", v)), np.cbrt(x), rtol=1e-5)
tvm.testing.assert_allclose(
    run(lambda v: te.if_then_else(te.any(v < 0.2, v > 0.8), v, 0.0)), np.where((x < 0.2) | (x > 0.8), x, 0)
)
tvm.testing.assert_allclose(
    run(lambda v: te.if_then_else(te.all(v > 0.2, v < 0.8), v, 0.0)), np.where((x > 0.2) & (x < 0.8), x, 0)
)


def gelu(value):
    """An intrinsic that no back end knows."""
    return tir.call_intrin(value.dtype, "tir.my_gelu", value)


def rule(call):
    assert isinstance(call, tir.Call) and call.op.name == "tir.my_gelu"
    if call.dtype.startswith("float32"):
        v = call.args[0]
        return v * 0.5 * (1 + te.erf(v * math.sqrt(0.5)))
    return call


register_op_attr("tir.my_gelu", "TCallEffectKind", tir.CallEffectKind.Pure)
register_intrin_lowering("tir.my_gelu", target="llvm", f=rule, level=99)
erf = np.vectorize(math.erf)
tvm.testing.assert_allclose(run(gelu), x * 0.5 * (1 + erf(x * math.sqrt(0.5))), rtol=1e-4)

whole = np.arange(1, 32, dtype="int32")
W = te.placeholder((n,), "int32", name="W")
for f, reference in {
    "floordiv": (lambda v: te.floordiv(v - 16, 3), (whole - 16) // 3),
    "floormod": (lambda v: te.floormod(v - 16, 3), (whole - 16) % 3),
    "truncdiv": (lambda v: te.truncdiv(v - 16, 3), np.trunc((whole - 16) / 3)),
    "shift": (lambda v: (v << 3) >> 1, whole << 2),
    "bits": (lambda v: (v & 5) | (v ^ 3), (whole & 5) | (whole ^ 3)),
    "popcount": (te.popcount, [bin(v).count("1") for v in whole]),
    "clz": (tir.clz, [32 - int(v).bit_length() for v in whole]),
    "select": (lambda v: tir.Select(v % 2 == 0, v, -v), np.where(whole % 2 == 0, whole, -whole)),
}.values():
    B = te.compute((n,), lambda i: f(W[i]), name="B")
    out = tvm.nd.array(np.zeros(31, B.dtype))
    tvm.build(te.create_schedule(B.op), [W, B])(tvm.nd.array(whole), out)
    np.testing.assert_array_equal(out.numpy(), reference)
