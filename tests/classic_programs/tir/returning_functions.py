import tvm
from tvm.script import tir as T


@T.prim_func
def larger(a: T.int32, b: T.int32) -> T.int32:
    T.func_attr({"global_symbol": "larger"})
    T.ret(T.max(a, b))


f = tvm.build(larger, target="llvm")
assert f(3, 9) == 9 and f(-1, -5) == -1
assert str(larger.ret_type) in ("T.int32", "T.int32()") or larger.ret_type.dtype == "int32"


@T.prim_func
def scale(x: T.float32, n: T.int64) -> T.float32:
    return x * T.Cast("float32", n)


g = tvm.build(scale, target="llvm")
assert g(2.5, 4) == 10.0
