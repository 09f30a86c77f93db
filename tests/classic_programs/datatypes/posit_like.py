import numpy as np
import tvm
from tvm import te, tir
from tvm.target import datatype

# A number of 8 bits: sign, and the rest of a float32's first bits. Its operations go through float32 on bits of uint32.
datatype.register("classicmini", 160)


def to_bits(value):
    return tir.reinterpret("uint32", value)


def from_bits(bits):
    return tir.reinterpret("float32", bits)


def shorten(value):
    """The first 16 bits of a float32, in a uint32."""
    return tir.bitwise_and(to_bits(value), tir.const(0xFFFF0000, "uint32"))


datatype.register_op(lambda op: shorten(op.value), "Cast", "llvm", "float", "classicmini")
datatype.register_op(lambda op: from_bits(op.value), "Cast", "llvm", "classicmini", "float")
datatype.register_op(lambda op: shorten(from_bits(op.a) + from_bits(op.b)), "Add", "llvm", "classicmini")
datatype.register_op(lambda op: shorten(from_bits(op.a) * from_bits(op.b)), "Mul", "llvm", "classicmini")
assert datatype.get_type_name(160) == "classicmini" and datatype.get_type_code("classicmini") == 160
n = 8
A = te.placeholder((n,), name="A")
B = te.placeholder((n,), name="B")
a = te.compute((n,), lambda i: A[i].astype("custom[classicmini]32"), name="a")
b = te.compute((n,), lambda i: B[i].astype("custom[classicmini]32"), name="b")
c = te.compute((n,), lambda i: a[i] * b[i] + a[i], name="c")
C = te.compute((n,), lambda i: c[i].astype("float32"), name="C")
s = te.create_schedule(C.op)
f = tvm.build(s, [A, B, C], "llvm")
x, y = np.random.rand(2, n).astype("float32")
out = tvm.nd.empty((n,))
f(tvm.nd.array(x), tvm.nd.array(y), out)
short = lambda v: (np.asarray(v, "float32").view("uint32") & 0xFFFF0000).astype("uint32").view("float32")
want = short(short(short(x) * short(y)) + short(x))
np.testing.assert_array_equal(out.numpy(), want)
