import numpy as np
import tvm
from tvm.script import tir as T

seen = []


@tvm.register_func("classic_programs.look")
def look(value, text):
    seen.append((value, text))
    return 0


@T.prim_func
def f(A: T.Buffer((3,), "int32")):
    for i in range(3):
        A[i] = A[i] + 1
        T.evaluate(T.call_packed("classic_programs.look", i, "step"))


tvm.build(f, target="llvm")(tvm.nd.array(np.zeros(3, "int32")))
assert seen == [(0, "step"), (1, "step"), (2, "step")]
