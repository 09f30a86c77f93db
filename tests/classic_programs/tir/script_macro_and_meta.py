from tvm.script import tir as T

SCALE = 3.0


@T.macro
def scale(dst, src, i):
    dst[i] = src[i] * T.float32(SCALE)


def make(n, dtype):
    @T.prim_func
    def func(A: T.Buffer((n,), dtype), B: T.Buffer((n,), dtype)):
        for i in T.serial(n):
            scale(B, A, i)

    return func


func = make(7, "float32")
assert [int(d) for d in func.buffer_map[func.params[0]].shape] == [7]
assert "B[i] = A[i] * T.float32(3)" in func.script() or "B[i] = A[i] * T.float32(3)" in func.script()
