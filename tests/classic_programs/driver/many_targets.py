import numpy as np
import tvm
from tvm import te
from tvm.contrib import utils

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
C = te.compute((n,), lambda i: A[i] * 2.0, name="C")
add, double = te.create_schedule(B.op), te.create_schedule(C.op)
mods = {}
m1 = tvm.lower(add, [A, B], name="add_one")
m2 = tvm.lower(double, [A, C], name="double")
assert isinstance(m1, tvm.IRModule) and "add_one" in [g.name_hint for g in m1.functions]
both = tvm.IRModule({g: f for m in (m1, m2) for g, f in m.functions.items()})
lib = tvm.build(both, target="llvm")
dev = tvm.cpu()
a = tvm.nd.array(np.arange(6, dtype="float32"), dev)
o = tvm.nd.empty((6,))
for name, want in (("add_one", a.numpy() + 1), ("double", a.numpy() * 2)):
    lib[name](a, o)
    np.testing.assert_array_equal(o.numpy(), want)
split = tvm.build({"llvm": m1, "c": m2})
assert split.implements_function("double", True)
split["add_one"](a, o)
np.testing.assert_array_equal(o.numpy(), a.numpy() + 1)
split["double"](a, o)
np.testing.assert_array_equal(o.numpy(), a.numpy() * 2)
split["add_one"](a, o)
np.testing.assert_array_equal(o.numpy(), a.numpy() + 1)
temp = utils.tempdir()
path = temp.relpath("both.so")
lib.export_library(path)
loaded = tvm.runtime.load_module(path)
loaded["double"](a, o)
np.testing.assert_array_equal(o.numpy(), a.numpy() * 2)
assert lib.type_key == "llvm" and lib.is_dso_exportable and "define" in lib.get_source("ll")
with tvm.transform.PassContext(opt_level=3, config={"tir.disable_vectorize": True}):
    s = te.create_schedule(B.op)
    x, y = s[B].split(B.op.axis[0], 4)
    s[B].vectorize(y)
    assert "T.Ramp" not in str(tvm.lower(s, [A, B]))
with tvm.target.Target("cuda", host="llvm"):
    assert str(tvm.target.Target.current().host.kind) == "llvm"
# The host's module and a device's, as in the documentation of build.
m3 = tvm.lower(te.create_schedule(B.op), [A, B], name="test_add1")
with tvm.target.Target("cuda -arch=sm_80", host="llvm") as cuda_tgt:
    s2 = tvm.topi.cuda.schedule_injective([C])
    m4 = tvm.lower(s2, [A, C], name="test_add2")
    module = tvm.build({"llvm": m3, cuda_tgt: m4})
module["test_add1"](a, o)
np.testing.assert_array_equal(o.numpy(), a.numpy() + 1)
assert module.implements_function("test_add2", True)
