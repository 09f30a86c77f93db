import tvm
from tvm import te, tir

A = te.placeholder((1024,), name="A")
B = te.compute((1024,), lambda i: A[i] + 1.0, name="B")
sch = tir.Schedule(te.create_prim_func([A, B]))
block = sch.get_block("B")
(i,) = sch.get_loops(block)
bx, tx = sch.split(i, [None, 128])
sch.bind(bx, "blockIdx.x")
sch.bind(tx, "threadIdx.x")
text = sch.mod.script()
assert 'for i_0 in T.thread_binding(8, thread="blockIdx.x"):' in text
assert 'for i_1 in T.thread_binding(128, thread="threadIdx.x"):' in text
lowered = tvm.lower(sch.mod)
assert 'T.launch_thread("threadIdx.x", 128)' in lowered.script()
source = tvm.build(sch.mod, target="cuda").imported_modules[0].get_source()
assert "blockIdx.x" in source and "threadIdx.x" in source and "__global__" in source
