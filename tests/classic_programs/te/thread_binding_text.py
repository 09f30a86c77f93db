import tvm
from tvm import te

n = 1024
A = te.placeholder((n,), name="A")
k = te.reduce_axis((0, n), "k")
B = te.compute((1,), lambda i: te.sum(A[k], axis=k), name="B")
s = te.create_schedule(B.op)
ko, ki = s[B].split(B.op.reduce_axis[0], factor=32)
BF = s.rfactor(B, ki)
tx = te.thread_axis("threadIdx.x")
s[B].bind(s[B].op.reduce_axis[0], tx)
s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
s[B].set_store_predicate(tx.var.equal(0))
text = tvm.lower(s, [A, B]).script()
assert 'threadIdx_x = T.launch_thread("threadIdx.x", 32)' in text
assert "tvm_thread_allreduce" in text
assert "threadIdx_x == 0" in text
