import tvm
from tvm import te
from tvm.relay.backend import Runtime

A = te.placeholder((4,), name="A")
B = te.compute((4,), lambda i: A[i] + 1, name="B")
s = te.create_schedule(B.op)
m = tvm.build(s, [A, B], "llvm", runtime=Runtime("cpp", {"system-lib": True}), name="sys_add")
assert "sys_add" in m.get_source()
assert tvm.target.Target("llvm -system-lib").attrs["system-lib"] in (True, 1)
