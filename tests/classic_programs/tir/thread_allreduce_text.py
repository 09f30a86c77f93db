import tvm
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128,), "float32")):
    for i in T.thread_binding(128, thread="blockIdx.x"):
        for k in T.thread_binding(128, thread="threadIdx.x"):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = 0.0
                B[vi] = B[vi] + A[vi, vk]


mod = tvm.lower(f)
text = mod.script()
assert "T.tvm_thread_allreduce(" in text and 'T.launch_thread("threadIdx.x", 128)' in text
assert "reduce_scope" in text
source = tvm.build(f, target="cuda").imported_modules[0].get_source()
assert "__shfl_down_sync" in source
