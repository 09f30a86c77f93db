import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((16,), "int32")):
    for i in range(16):
        if i < 16:
            A[i] = (i * 4 + 3) // 4 + 0 * i
        else:
            A[i] = 7
    for i in range(0):
        A[i] = 1


mod = tir.transform.Simplify()(tvm.IRModule({"main": f}))
text = mod.script()
assert "A[i] = i" in text and "if" not in text.split("def main")[1]
mod = tir.transform.RemoveNoOp()(mod)
assert mod.script().count("for ") == 1
