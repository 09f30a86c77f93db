import tvm
from tvm.script import tir as T


@T.prim_func
def loops(A: T.Buffer((8, 4, 4, 8), "float32")):
    for i in T.parallel(8):
        for j in T.unroll(4):
            for k in T.serial(4, annotations={"note": "inner"}):
                for l in T.vectorized(8):
                    A[i, j, k, l] = T.Cast("float32", i)


kinds = []
tvm.tir.stmt_functor.post_order_visit(
    loops.body, lambda s: kinds.append(s.kind) if isinstance(s, tvm.tir.For) else None
)
assert kinds == [tvm.tir.ForKind.VECTORIZED, tvm.tir.ForKind.SERIAL, tvm.tir.ForKind.UNROLLED, tvm.tir.ForKind.PARALLEL]
text = loops.script()
for part in (
    "for i in T.parallel(8):",
    "for j in T.unroll(4):",
    'for k in T.serial(4, annotations={"note": "inner"}):',
    "for l in T.vectorized(8):",
):
    assert part in text, text


@T.prim_func
def bound(A: T.Buffer((128,), "float32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            A[bx * 32 + tx] = 0.0


assert 'for bx in T.thread_binding(4, thread="blockIdx.x"):' in bound.script()
