import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("B"):
                vi = T.axis.spatial(128, bx * 32 + tx)
                B[vi] = A[vi] + 1.0


target = tvm.target.Target("cuda", host="llvm")
mod = tvm.lower(f)
mod = tir.transform.BindTarget(target)(mod)
mod = tir.transform.AnnotateDeviceRegions()(mod)
mod = tir.transform.SplitHostDevice()(mod)
names = sorted(g.name_hint for g in mod.get_global_vars())
(kernel_name,) = [n for n in names if n.endswith("_kernel")]
assert len(names) == 2 and "main" in names
kernel = mod[kernel_name]
assert kernel.attrs["target"].kind.name == "cuda"
mod = tir.transform.LowerDeviceKernelLaunch()(mod)
assert list(mod[kernel_name].attrs["tir.kernel_launch_params"]) == ["blockIdx.x", "threadIdx.x"]
