import tvm
from tvm.target import generic_func, override_native_generic_func


@override_native_generic_func("classic_programs.flavour")
def flavour(x):
    return ("default", x)


@flavour.register(["cuda", "gpu"])
def _gpu(x):
    return ("gpu", x)


@flavour.register("arm_cpu")
def _arm(x):
    return ("arm", x)


assert flavour(1) == ("default", 1)
with tvm.target.Target("cuda"):
    assert flavour(2) == ("gpu", 2)
with tvm.target.Target("llvm -device=arm_cpu -mtriple=aarch64-linux-gnu"):
    assert flavour(3) == ("arm", 3)
with tvm.target.Target("llvm"):
    assert flavour(4) == ("default", 4)


@generic_func
def other():
    return "none"


other.register(lambda: "cpu", ["cpu"])
with tvm.target.Target("llvm"):
    assert other() == "cpu"
