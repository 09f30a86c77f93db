"""Requirements of tests for the machine and its packages: features, pytest marks, and the available targets."""

from __future__ import annotations

import functools
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from tilewright.runtime import device
from tilewright.support.environment import strtobool
from tilewright.support.errors import TVMError
from tilewright.target import Target, host_cpu

CODE_GENERATORS = ("llvm",)
"""Kinds of target that this package makes code for."""

DEFAULT_TEST_TARGETS = ["llvm", "cuda", "nvptx", "vulkan", "opencl", "metal", "rocm", "hexagon"]


@functools.cache
def _device_exists(name: str) -> bool:
    try:
        return bool(device(name, 0).exist)
    except Exception:
        return False


def device_enabled(target: Any) -> bool:
    """Whether code for a target can be made and run here. Raises ValueError for something that is not a target."""
    if not isinstance(target, (str, Target)):
        raise ValueError(f"device_enabled takes a target or its text, but was given {type(target).__name__}")
    kind = str(Target(target).kind.name) if not isinstance(target, Target) else str(target.kind.name)
    return kind in CODE_GENERATORS and _device_exists("cpu" if kind in ("llvm", "c") else kind)


def target_names() -> list[str]:
    """Targets to test on: those of the variable TVM_TEST_TARGETS (separated by semicolons), else the usual ones. Raises TVMError for
    one that is not a target."""
    found = [t.strip() for t in os.environ.get("TVM_TEST_TARGETS", "").split(";") if t.strip()]
    for t in found:
        try:
            Target(t)
        except (ValueError, TypeError, TVMError) as error:
            raise TVMError(
                f"the environment variable TVM_TEST_TARGETS must hold targets separated by semicolons, but `{t}` is none: {error}"
            ) from error
    return found or list(DEFAULT_TEST_TARGETS)


def enabled_targets() -> list[tuple[str, Any]]:
    """(target, device) of each target to test on that can be run here."""
    found = [t for t in target_names() if device_enabled(t)]
    return [(t, device("cpu" if t.split()[0] in ("llvm", "c") else t.split()[0], 0)) for t in found]


class Feature:
    """Something that a test needs. As a decorator it marks tests, which are skipped where it is missing.

    `check` gives the reason why the feature is missing, or None. Parents are needed as well. Every feature is a
    pytest mark of its name, so that `pytest -m gpu` selects tests by it. With support_required="optional" a test is
    marked and never skipped; "compile-only" and "compile-and-run" both ask for the feature.
    """

    def __init__(
        self, name: str, long_name: str, check: Callable[[], str | None], parents: tuple[Feature, ...] = ()
    ) -> None:
        self.name, self.long_name, self._check, self.parents = name, long_name, check, parents

    def missing(self) -> str | None:
        """Why the feature cannot be used here; None: it can."""
        for parent in self.parents:
            reason = parent.missing()
            if reason is not None:
                return reason
        return self._check()

    def names(self) -> list[str]:
        """The names of the feature and of what it needs."""
        return list(dict.fromkeys([self.name, *[n for p in self.parents for n in p.names()]]))

    def marks(self, support_required: str = "compile-and-run") -> list[Any]:
        """The pytest marks of a test that needs this."""
        import pytest

        if support_required not in ("compile-and-run", "compile-only", "optional"):
            raise ValueError(
                'support_required is "compile-and-run", "compile-only" or "optional",'
                f" but was given {support_required!r}"
            )
        marks = [getattr(pytest.mark, name) for name in self.names()]
        if support_required == "optional":
            return marks
        reason = self.missing()
        return [*marks, pytest.mark.skipif(reason is not None, reason=reason or "")]

    def __call__(self, func: Any = None, *, support_required: str = "compile-and-run") -> Any:
        if func is None:
            return functools.partial(self, support_required=support_required)
        for mark in self.marks(support_required):
            func = mark(func)
        return func

    @classmethod
    def require(cls, name: str, support_required: str = "compile-and-run") -> Callable[[Any], Any]:
        """A decorator for tests that need the feature of this name. Raises ValueError for unknown names."""
        known = {f.name: f for f in _FEATURES}
        if name not in known:
            raise ValueError(f"there is no feature {name!r}; there are {', '.join(sorted(known))}")
        return functools.partial(known[name], support_required=support_required)

    def __repr__(self) -> str:
        return f"<feature {self.name}: {self.missing() or 'available'}>"


def _target_check(kind: str, text: str) -> Callable[[], str | None]:
    def check() -> str | None:
        if kind not in CODE_GENERATORS:
            return f"no code is generated for {text} targets"
        return None if device_enabled(kind) else f"there is no {text} device"

    return check


def _machine(names: tuple[str, ...]) -> Callable[[], str | None]:
    return lambda: None if platform.machine().lower() in names else f"the machine is {platform.machine()}"


def _any_gpu() -> str | None:
    kinds = [k for k in ("cuda", "rocm", "opencl", "metal", "vulkan") if k in CODE_GENERATORS]
    if any([_device_exists(k) for k in kinds]):
        return None
    return "no code is generated for GPUs" if not kinds else "there is no GPU device"


def _two_gpus() -> str | None:
    kinds = ("cuda", "rocm", "opencl", "metal", "vulkan")
    return None if any([device(k, 1).exist for k in kinds if _device_exists(k)]) else "there are no two GPUs of a kind"


def _package(name: str) -> Callable[[], str | None]:
    return lambda: None if find_spec(name) is not None else f"the package {name} is not installed"


def _cpu_features(*names: str) -> Callable[[], str | None]:
    """Checks what the CPU of this machine has, by LLVM's names of features."""

    def check() -> str | None:
        have = host_cpu().features
        absent = [n for n in names if n not in have]
        return f"the CPU has no {', '.join(absent)}" if absent else None

    return check


def _absent(what: str) -> Callable[[], str | None]:
    return lambda: f"this package has no {what}"


def _room(name: str, what: str) -> Callable[[], str | None]:
    return lambda: None if find_spec(f"tilewright.{name}") is not None else f"this package has no {what}"


requires_gpu = Feature("gpu", "a GPU", _any_gpu)
requires_llvm = Feature("llvm", "LLVM", _target_check("llvm", "LLVM"))
requires_cuda = Feature("cuda", "CUDA", _target_check("cuda", "CUDA"), (requires_gpu,))
requires_tensorcore = Feature("tensorcore", "tensor cores", _absent("code for tensor cores"), (requires_cuda,))
requires_cudnn = Feature("cudnn", "cuDNN", _absent("calls of cuDNN"), (requires_cuda,))
requires_cublas = Feature("cublas", "cuBLAS", _absent("calls of cuBLAS"), (requires_cuda,))
requires_cudagraph = Feature("cudagraph", "CUDA graphs", _absent("CUDA graphs"), (requires_cuda,))
requires_cutlass = Feature("cutlass", "CUTLASS", _absent("calls of CUTLASS"), (requires_cuda,))
requires_nvptx = Feature("nvptx", "NVPTX", _target_check("nvptx", "NVPTX"), (requires_gpu,))
requires_opencl = Feature("opencl", "OpenCL", _target_check("opencl", "OpenCL"), (requires_gpu,))
requires_openclml = Feature("openclml", "OpenCL ML", _absent("calls of OpenCL ML"), (requires_opencl,))
requires_rocm = Feature("rocm", "ROCm", _target_check("rocm", "ROCm"), (requires_gpu,))
requires_matrixcore = Feature("matrixcore", "matrix cores", _absent("code for matrix cores"), (requires_rocm,))
requires_hipblas = Feature("hipblas", "hipBLAS", _absent("calls of hipBLAS"), (requires_rocm,))
requires_vulkan = Feature("vulkan", "Vulkan", _target_check("vulkan", "Vulkan"), (requires_gpu,))
requires_metal = Feature("metal", "Metal", _target_check("metal", "Metal"), (requires_gpu,))
requires_hexagon = Feature("hexagon", "Hexagon", _target_check("hexagon", "Hexagon"))
requires_rpc = Feature("rpc", "RPC", _room("rpc", "RPC"))
requires_micro = Feature("micro", "microTVM", _room("micro", "microTVM"))
requires_vta = Feature("vta", "VTA", _room("vta", "VTA"))
requires_aot_executor = Feature("aot_executor", "the ahead-of-time executor", lambda: None)
requires_libtorch = Feature("libtorch", "LibTorch", _absent("calls of LibTorch"))
requires_tflite_runtime = Feature("tflite_runtime", "the TFLite runtime", _package("tflite_runtime"))
requires_ethosn = Feature("ethosn", "Ethos-N", _absent("code for Ethos-N"))
requires_ethosu = Feature("ethosu", "Ethos-U", _absent("code for Ethos-U"))
requires_cmsisnn = Feature("cmsisnn", "CMSIS-NN", _absent("calls of CMSIS-NN"))
requires_vitis_ai = Feature("vitis_ai", "Vitis AI", _absent("code for Vitis AI"))
requires_corstone300 = Feature("corstone300", "Corstone-300", _absent("code for Corstone-300"))
requires_aprofile_aem_fvp = Feature("aprofile_aem_fvp", "the AEM FVP of Arm", _absent("use of the AEM FVP of Arm"))
requires_x86 = Feature("x86", "an x86-64 machine", _machine(("x86_64", "amd64")))
requires_x86_avx512 = Feature(
    "x86_avx512", "AVX-512", _cpu_features("avx512f", "avx512bw", "avx512dq", "avx512vl"), (requires_x86,)
)
requires_x86_vnni = Feature("x86_vnni", "VNNI", _cpu_features("avx512vnni"), (requires_x86,))
requires_x86_amx = Feature("x86_amx", "AMX", _cpu_features("amx-int8", "amx-tile"), (requires_x86,))
requires_aarch64 = Feature("aarch64", "an AArch64 machine", _machine(("aarch64", "arm64")))
requires_arm = Feature("arm", "an ARM machine", _machine(("aarch64", "arm64", "armv7l", "armv8l")))
requires_arm_dot = Feature("arm_dot", "dot products of ARM", _cpu_features("dotprod"), (requires_arm,))
requires_aarch64_sve = Feature("aarch64_sve", "SVE", _cpu_features("sve"), (requires_aarch64,))
requires_aarch64_sme = Feature("aarch64_sme", "SME", _cpu_features("sme"), (requires_aarch64,))
requires_arm_fp16 = Feature("arm_fp16", "arithmetic of ARM in float16", _cpu_features("fullfp16"), (requires_arm,))
requires_mrvl = Feature("mrvl", "accelerators of Marvell", _absent("code for accelerators of Marvell"))
requires_nnapi = Feature("nnapi", "NNAPI", _absent("calls of NNAPI"))
requires_nccl = Feature("nccl", "NCCL", _absent("calls of NCCL"), (requires_cuda,))
requires_multi_gpu = Feature("multi_gpu", "two GPUs", _two_gpus, (requires_gpu,))
requires_32bit = Feature(
    "bits32", "a 32-bit process", lambda: None if sys.maxsize < 1 << 32 else "the process is of 64 bits"
)
requires_cross = Feature("cross", "a linker for other machines", _package("ziglang"))

_FEATURES = [f for f in list(globals().values()) if isinstance(f, Feature)]


def feature_names() -> list[str]:
    """The names of all features, which are pytest marks."""
    return [f.name for f in _FEATURES]


def requires_llvm_minimum_version(major_version: int) -> Callable[[Any], Any]:
    """Marks tests that need LLVM of that version or later."""
    from llvmlite import binding

    have = int(binding.llvm_version_info[0])
    reason = f"LLVM is of version {have}, the test needs {major_version}"
    return _unless(have >= major_version, reason, requires_llvm)


def requires_nvcc_version(major_version: int, minor_version: int = 0, release_version: int = 0) -> Callable[[Any], Any]:
    """Marks tests that need nvcc of that version or later."""
    wanted = (major_version, minor_version, release_version)
    reason = f"there is no nvcc {'.'.join([str(v) for v in wanted])}"
    return _unless(_nvcc_version() >= wanted, reason, requires_cuda)


def requires_cuda_compute_version(major_version: int, minor_version: int = 0) -> Callable[[Any], Any]:
    """Marks tests that need a CUDA device of that compute capability or later."""
    text = device("cuda", 0).compute_version or "0.0"
    have = tuple([int(part) for part in str(text).split(".")])
    reason = f"the device has compute capability {text}, the test needs {major_version}.{minor_version}"
    return _unless(have >= (major_version, minor_version), reason, requires_cuda)


def _nvcc_version() -> tuple[int, int, int]:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return (0, 0, 0)
    found = re.search(
        r"V(\d+)\.(\d+)\.(\d+)", subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout
    )
    return (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)


def _unless(holds: bool, reason: str, feature: Feature) -> Callable[[Any], Any]:
    import pytest

    return lambda func: pytest.mark.skipif(not holds, reason=reason)(feature(func))


def skip_if_32bit(reason: str = "the process is of 32 bits") -> Callable[[Any], Any]:
    """Marks tests that are skipped in a 32-bit process."""
    import pytest

    return pytest.mark.skipif(sys.maxsize < 1 << 32, reason=reason)


def skip_if_wheel_test(func: Any) -> Any:
    """Marks tests that are skipped where WHEEL_TEST is set: they need more than the installed package."""
    import pytest

    return pytest.mark.skipif(strtobool_env("WHEEL_TEST"), reason="WHEEL_TEST is set")(func)


def strtobool_env(name: str, default: str = "0") -> bool:
    """Whether an environment variable says yes. Raises ValueError for words that say neither yes nor no."""
    try:
        return bool(strtobool(os.environ.get(name, default)))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def requires_package(*packages: str) -> Callable[[Any], Any]:
    """Marks tests that are skipped unless all of these packages can be imported."""
    missing = [p for p in packages if find_spec(p.split(".")[0]) is None]

    def decorate(func: Any) -> Any:
        import pytest

        return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")(func)

    return decorate


uses_gpu = requires_gpu(support_required="optional")
"""Marks tests that use a GPU where there is one."""
uses_multi_gpu = requires_multi_gpu(support_required="optional")
"""Marks tests that use several GPUs where there are."""


def is_ampere_or_newer() -> bool:
    """Whether the CUDA device of this machine has compute capability 8.0 or later."""
    text = device("cuda", 0).compute_version if _device_exists("cuda") else None
    return bool(text) and int(str(text).split(".")[0]) >= 8


def skip_if_no_reference_system(func: Any) -> Any:
    """Marks tests that are skipped unless they run on Corstone-300's model, where applications for microcontrollers run."""
    return requires_corstone300(func)


SKIP_SLOW_TESTS, IS_IN_CI = strtobool_env("SKIP_SLOW_TESTS"), strtobool_env("CI")
"""What the environment said when this was imported."""


def slow(func: Any) -> Any:
    """Marks tests that take minutes; they are skipped where SKIP_SLOW_TESTS is set."""
    import pytest

    skipped = strtobool_env("SKIP_SLOW_TESTS")
    return pytest.mark.skipif(skipped, reason="SKIP_SLOW_TESTS is set")(pytest.mark.slow(func))


def feature_of(target: str) -> Feature | None:
    """The feature that running a target needs."""
    kind = target.split()[0]
    known = {f.name: f for f in _FEATURES}
    if kind in known:
        return known[kind]
    if kind in CODE_GENERATORS:
        return None
    return Feature(kind, kind, _target_check(kind, kind))
