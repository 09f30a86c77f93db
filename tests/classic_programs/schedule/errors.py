import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]


def refused(action, kind=tir.ScheduleError):
    sch = tir.Schedule(f, error_render_level="detail")
    try:
        action(sch)
    except kind as error:
        return str(error)
    raise AssertionError("accepted")


refused(lambda s: s.parallel(s.get_loops("B")[1]))
refused(lambda s: s.get_block("nothing"))
refused(lambda s: s.reorder(s.get_loops("B")[0], s.get_loops("B")[0]))
refused(lambda s: s.compute_inline("B"))
refused(lambda s: s.fuse(s.get_loops("B")[1], s.get_loops("B")[0]))
refused(lambda s: s.split(s.get_loops("B")[0], [None, None]), (ValueError, tvm.TVMError))
assert issubclass(tir.ScheduleError, tvm.TVMError)
