from tvm import tir
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((96,), "float32"), B: T.Buffer((96,), "float32")):
    for i in range(96):
        with T.block("B"):
            vi = T.axis.spatial(96, i)
            B[vi] = A[vi] + 1.0


sch = tir.Schedule(f, seed=7)
(i,) = sch.get_loops("B")
c = sch.sample_categorical([1, 2, 4], [0.2, 0.3, 0.5])
assert int(sch.get(c)) in (1, 2, 4)
tiles = sch.sample_perfect_tile(i, n=3, max_innermost_factor=8)
values = [int(sch.get(t)) for t in tiles]
assert values[0] * values[1] * values[2] == 96 and values[2] <= 8
again = tir.Schedule(f, seed=7)
(j,) = again.get_loops("B")
d = again.sample_categorical([1, 2, 4], [0.2, 0.3, 0.5])
assert int(again.get(d)) == int(sch.get(c))
assert sch.fork_seed() != sch.fork_seed()
