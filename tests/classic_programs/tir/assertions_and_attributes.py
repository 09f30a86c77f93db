import numpy as np
import tvm
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((4,), "int32"), n: T.int32):
    assert n < 4, "n must be less than 4"
    with T.attr(A.data, "note", 1):
        A[n] = 7


g = tvm.build(f, target="llvm")
x = tvm.nd.array(np.zeros(4, "int32"))
g(x, 2)
assert x.numpy()[2] == 7
try:
    g(x, 5)
except tvm.TVMError as error:
    assert "n must be less than 4" in str(error)
else:
    raise AssertionError
text = f.script()
assert 'assert n < 4, "n must be less than 4"' in text and 'T.attr(A.data, "note", 1)' in text
