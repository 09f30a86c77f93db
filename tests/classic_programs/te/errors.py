import tvm
from tvm import te


def fails(kind, f, part=""):
    try:
        f()
    except kind as error:
        assert part in str(error), error
        return
    raise AssertionError("no error")


A = te.placeholder((4, 4), name="A")
B = te.compute((4, 4), lambda i, j: A[i, j], name="B")
fails(ValueError, lambda: te.compute((4, 4), lambda i: A[i, i]))
fails(ValueError, lambda: A(1))
fails(ValueError, lambda: A[1] + 1)
s = te.create_schedule(B.op)
fails(tvm.TVMError, lambda: s[B].split(te.create_schedule(te.compute((3,), lambda i: i).op).stages[0].op.axis[0], 2))
fails((ValueError, TypeError), lambda: s[B].split(B.op.axis[0]))
k = te.reduce_axis((0, 4), "k")
C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="C")
sc = te.create_schedule(C.op)
fails(Exception, lambda: bool(A[0, 0] < 1))
fails(tvm.TVMError, lambda: te.compute((4,), lambda i: te.sum(A[i, k], axis=k) + 1))
