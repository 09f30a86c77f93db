import tvm
from tvm import te

A = te.placeholder((3, 4), name="A")
assert A.ndim == 2 and A.dtype == "float32" and A[0].__class__.__name__ == "TensorSlice"
element = A[1, 2]
assert isinstance((element + 1), tvm.tir.Add)
i = te.var("i")
assert A(1, 2).dtype == "float32"
assert A == A and not (A == te.placeholder((3, 4), name="A"))
assert hash(A) == hash(A)
other = A.op.output(0)
assert other == A and other.same_as(other)
assert str(A).startswith("Tensor(shape=[3, 4]")
assert te.max_value("int8").value == 127 and te.min_value("int8").value == -128
assert te.const(3, "int32").value == 3
assert te.size_var("n").dtype == "int32"
assert te.any(i < 3, i > 5).dtype == "bool"
C = te.compute((3,), lambda r: A[r, 0], name="col")
assert C.op.body[0].producer == A
