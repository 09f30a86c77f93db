import tvm
from tvm.target import codegen

assert codegen.llvm_version_major() >= 8
assert codegen.llvm_get_system_triple().count("-") >= 2 and codegen.llvm_get_system_cpu()
new = tvm.target.Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")
assert codegen.target_has_features("avx512f", new) and codegen.target_has_features(["avx2", "fma"], new)
assert not codegen.target_has_features("avx512f", tvm.target.Target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"))
with new:
    assert codegen.llvm_cpu_has_features("avx512bw")
assert "skylake-avx512" in codegen.llvm_get_cpu_archlist(new) and "avx2" in codegen.llvm_get_cpu_features(new)
arm = tvm.target.Target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72")
assert "cortex-a72" in codegen.llvm_get_cpu_archlist(arm)
