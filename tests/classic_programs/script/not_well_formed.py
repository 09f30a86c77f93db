import tvm

source = """
from tvm.script import tir as T
@T.prim_func(check_well_formed=False)
def f(A: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("x"):
            vi = T.axis.spatial(4, i)
            A[i] = 1.0
"""
f = tvm.script.from_source(source, check_well_formed=False)
assert not tvm.tir.analysis.verify_well_formed(f, assert_mode=False)
try:
    tvm.tir.analysis.verify_well_formed(f, assert_mode=True)
except (ValueError, tvm.TVMError) as error:
    assert "i" in str(error)
else:
    raise AssertionError
