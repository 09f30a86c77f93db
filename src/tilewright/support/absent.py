"""Modules of classic TVM that are not here, with the reason that a program is told where it imports them."""

from __future__ import annotations

RELAX = "this package compiles Relay; Relax came after it"
VENDOR = "it needs hardware or a library of a vendor that this package does not serve; other code is not affected"
KERNELS = "kernels for this hardware come from the rules for all GPUs and CPUs of its kind: build for its target"
NAMES = {
    RELAX: "relax contrib.relax meta_schedule.relax_integration runtime.relax_vm dlight exec.disco_worker",
    VENDOR: """contrib.coreml_runtime contrib.cudnn contrib.cutlass contrib.ethosu contrib.hexagon contrib.miopen contrib.mps contrib.mrvl
    contrib.nnpack contrib.rocblas contrib.sdaccel contrib.tflite_runtime contrib.tf_op contrib.triton contrib.uvisor
    contrib.vitis_ai_runtime contrib.xcode contrib.target.coreml contrib.target.vitis_ai relay.backend.contrib.cmsisnn
    relay.backend.contrib.ethosu relay.op.contrib.bnns relay.op.contrib.clml relay.op.contrib.cmsisnn relay.op.contrib.coreml
    relay.op.contrib.cublas relay.op.contrib.cudnn relay.op.contrib.cutlass relay.op.contrib.ethosn relay.op.contrib.ethosu
    relay.op.contrib.libtorch relay.op.contrib.mrvl relay.op.contrib.tensorrt relay.op.contrib.vitis_ai""",
    KERNELS: "topi.adreno topi.bifrost topi.hexagon topi.intel_graphics topi.mali topi.rocm",
}
"""Reason -> the modules, by their paths below the package."""
ABSENT = {path: reason for reason, paths in NAMES.items() for path in paths.split()}


def reason_for(path: str) -> str:
    """Why a module, or one that it is part of, is not here; "" if nothing is known."""
    while path:
        if path in ABSENT:
            return ABSENT[path]
        path = path.rpartition(".")[0]
    return ""
