import tvm

arm = tvm.target.arm_cpu("rasp4b")
assert arm.kind.name == "llvm" and "arm_cpu" in list(arm.keys)
assert tvm.target.arm_cpu(model="rk3399", options="-mattr=+neon").model == "rk3399"
assert tvm.target.cuda("1080ti").arch == "sm_61" or tvm.target.cuda("1080ti").model == "1080ti"
assert tvm.target.intel_graphics().kind.name == "opencl"
assert tvm.target.mali().kind.name == "opencl" and tvm.target.rocm().kind.name == "rocm"
assert "riscv_cpu" in str(tvm.target.riscv_cpu()) or tvm.target.riscv_cpu().kind.name == "llvm"
micro = tvm.target.target.micro("host")
assert micro.kind.name == "c"
hexagon = tvm.target.hexagon("v68")
assert hexagon.kind.name == "hexagon"
stm = tvm.target.stm32("stm32F7xx")
assert stm.kind.name == "c" and stm.mcpu == "cortex-m7"
assert len(tvm.target.list_tags()) > 100 if tvm.target.list_tags() else False
