import tvm
from tvm import te

n, m, l = te.var("n"), te.var("m"), te.var("l")
A = te.placeholder((n, l), name="A")
B = te.placeholder((m, l), name="B")
with tvm.te.tag_scope(tag="matmul"):
    k = te.reduce_axis((0, l), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k))
assert C.op.tag == "matmul"


@tvm.te.tag_scope(tag="conv")
def compute_conv(data, weight):
    rw = te.reduce_axis((0, 3), name="rw")
    return te.compute((8,), lambda x: te.sum(data[x + rw] * weight[rw], axis=rw), name="conv1")


D = compute_conv(te.placeholder((10,)), te.placeholder((3,)))
assert D.op.tag == "conv"
E = te.compute((4,), lambda i: i + 1, tag="plain")
assert E.op.tag == "plain"
try:
    with te.tag_scope("outer"):
        with te.tag_scope("inner"):
            pass
except ValueError as error:
    assert "nested" in str(error).lower()
else:
    raise AssertionError("nested tag scopes")
