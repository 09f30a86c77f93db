import numpy as np
import tvm
from tvm import te
from tvm.contrib import utils

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] + 1, name="B")
C = te.compute((n,), lambda i: A[i] * 2, name="C")
one = tvm.lower(te.create_schedule(B.op), [A, B], name="plus_one")
two = tvm.lower(te.create_schedule(C.op), [A, C], name="twice")
both = tvm.IRModule({**one.functions, **two.functions})
m = tvm.build(both, target="llvm")
x, y = tvm.nd.array(np.arange(3, dtype="float32")), tvm.nd.empty((3,))
m["plus_one"](x, y)
np.testing.assert_array_equal(y.numpy(), [1, 2, 3])
m.get_function("twice")(x, y)
np.testing.assert_array_equal(y.numpy(), [0, 2, 4])
assert m.type_key == "llvm" and m.implements_function("twice") and not m.implements_function("none")
try:
    m["none"]
except AttributeError as error:
    assert "none" in str(error)
else:
    raise AssertionError
tmp = utils.tempdir()
m.export_library(tmp.relpath("m.so"))
loaded = tvm.runtime.load_module(tmp.relpath("m.so"))
loaded["twice"](x, y)
np.testing.assert_array_equal(y.numpy(), [0, 2, 4])
assert loaded.type_key == "library" and not loaded.is_dso_exportable
assert m.is_dso_exportable and tvm.runtime.enabled("llvm") in (True, 1)
m.save(tmp.relpath("m.ll"))
assert "define" in open(tmp.relpath("m.ll")).read()
