import numpy as np
import tvm
from tvm import te, tir
from tvm.script import tir as T


@T.prim_func
def add_one(A: T.Buffer((7, 50), "float32"), B: T.Buffer((7, 50), "float32")):
    for i, j in T.grid(7, 50):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)


def runs(func):
    a, b = np.random.rand(7, 50).astype("float32"), tvm.nd.empty((7, 50))
    func(tvm.nd.array(a), b)
    np.testing.assert_array_equal(b.numpy(), a + 1)


# A loop in vectors of as many lanes as the machine has, by tir.Schedule.
sch = tir.Schedule(add_one)
i, j = sch.get_loops("B")
outer, inner = sch.split(j, factors=[None, 4 * T.vscale()])
sch.vectorize(inner)
sch.parallel(i)
assert "for j_1 in T.vectorized(T.vscale() * 4)" in sch.mod.script()
runs(tvm.build(sch.mod, target="llvm"))
assembly = tvm.build(sch.mod, target="llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1").get_source("asm")
assert "ptrue" in assembly and "fadd\tz" in assembly

# Not every axis that a loop of vscale iterations moves is one to one.
sch = tir.Schedule(add_one)
i, j = sch.get_loops("B")
outer, inner = sch.split(sch.fuse(i, j), factors=[None, 4 * T.vscale()])
sch.vectorize(inner)
runs(tvm.build(sch.mod, target="llvm"))


@T.prim_func
def overlapping(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(8):
        for j in range(T.vscale() * 4):
            with T.block("B"):
                v = T.axis.spatial(64, i * 2 + j)
                T.where(i * 2 + j < 64)
                B[v] = A[v] + T.float32(1)


sch = tir.Schedule(overlapping)
try:
    sch.parallel(sch.get_loops("B")[0])
except tvm.tir.ScheduleError as error:
    assert "one to one" in str(error)
else:
    raise AssertionError("iterations that write the same elements became parallel")

# The same on a stage.
A = te.placeholder((7, 50), name="A")
C = te.compute((7, 50), lambda i, j: A[i, j] + 1.0, name="C")
s = te.create_schedule(C.op)
_, columns = s[C].split(C.op.axis[1], factor=4 * T.vscale())
s[C].vectorize(columns)
assert "T.vscale()" in str(tvm.lower(s, [A, C]))
runs(tvm.build(s, [A, C], "llvm"))
