"""What a test needs of the machine and the package: features, the marks they put on tests, the targets there are."""

from __future__ import annotations

import functools
import os
import platform
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from tilewright.runtime import device
from tilewright.target import Target

CODE_GENERATORS = ("llvm",)
"""Kinds of target that this package makes code for."""

DEFAULT_TARGETS = ("llvm", "cuda", "nvptx", "vulkan", "opencl", "metal", "rocm", "hexagon")


@functools.cache
def _device_exists(name: str) -> bool:
    try:
        return bool(device(name, 0).exist)
    except Exception:
        return False


def device_enabled(target: Any) -> bool:
    """Whether code for a target can be made and run here. Raises ValueError for something that is no target."""
    if not isinstance(target, (str, Target)):
        raise ValueError(f"device_enabled takes a target or its text, but was given {type(target).__name__}")
    kind = str(Target(target).kind.name) if not isinstance(target, Target) else str(target.kind.name)
    return kind in CODE_GENERATORS and _device_exists("cpu" if kind in ("llvm", "c") else kind)


def target_names() -> list[str]:
    """Targets to test on: those of the variable TVM_TEST_TARGETS (texts divided by ";"), else the usual ones."""
    text = os.environ.get("TVM_TEST_TARGETS", "")
    return [t.strip() for t in text.split(";") if t.strip()] or list(DEFAULT_TARGETS)


def enabled_targets() -> list[tuple[str, Any]]:
    """(target, device) of each target to test on that can be run here."""
    found = [t for t in target_names() if device_enabled(t)]
    return [(t, device("cpu" if t.split()[0] in ("llvm", "c") else t.split()[0], 0)) for t in found]


class Feature:
    """Something that a test needs. As a decorator it marks tests, which are skipped where it is missing.

    `check` gives the reason why the feature is missing, or None. Parents are needed as well. Every feature is a
    pytest mark of its name, so that `pytest -m gpu` selects tests by it.
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

    def marks(self) -> list[Any]:
        """The pytest marks of a test that needs this."""
        import pytest

        reason = self.missing()
        names = [self.name, *[p.name for p in self.parents]]
        marks = [getattr(pytest.mark, name) for name in names]
        return [*marks, pytest.mark.skipif(reason is not None, reason=reason or "")]

    def __call__(self, func: Any = None) -> Any:
        if func is None:
            return self
        for mark in self.marks():
            func = mark(func)
        return func

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


def _package(name: str) -> Callable[[], str | None]:
    return lambda: None if find_spec(name) is not None else f"the package {name} is not installed"


requires_gpu = Feature("gpu", "a GPU", _any_gpu)
requires_llvm = Feature("llvm", "LLVM", _target_check("llvm", "LLVM"))
requires_cuda = Feature("cuda", "CUDA", _target_check("cuda", "CUDA"), (requires_gpu,))
requires_nvptx = Feature("nvptx", "NVPTX", _target_check("nvptx", "NVPTX"), (requires_gpu,))
requires_opencl = Feature("opencl", "OpenCL", _target_check("opencl", "OpenCL"), (requires_gpu,))
requires_rocm = Feature("rocm", "ROCm", _target_check("rocm", "ROCm"), (requires_gpu,))
requires_vulkan = Feature("vulkan", "Vulkan", _target_check("vulkan", "Vulkan"), (requires_gpu,))
requires_metal = Feature("metal", "Metal", _target_check("metal", "Metal"), (requires_gpu,))
requires_x86 = Feature("x86", "an x86-64 machine", _machine(("x86_64", "amd64")))
requires_aarch64 = Feature("aarch64", "an AArch64 machine", _machine(("aarch64", "arm64")))
requires_arm = Feature("arm", "an ARM machine", _machine(("aarch64", "arm64", "armv7l", "armv8l")))
requires_32bit = Feature(
    "bits32", "a 32-bit process", lambda: None if sys.maxsize < 1 << 32 else "the process is of 64 bits"
)
requires_cross = Feature("cross", "a linker for other machines", _package("ziglang"))


def requires_package(*packages: str) -> Callable[[Any], Any]:
    """Marks tests that are skipped unless all of these packages can be imported."""
    missing = [p for p in packages if find_spec(p.split(".")[0]) is None]

    def decorate(func: Any) -> Any:
        import pytest

        return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")(func)

    return decorate


def uses_gpu(func: Any) -> Any:
    """Marks tests that use a GPU where there is one."""
    import pytest

    return pytest.mark.gpu(func)


def slow(func: Any) -> Any:
    """Marks tests that take minutes; they are skipped where SKIP_SLOW_TESTS is set."""
    import pytest

    skipped = os.environ.get("SKIP_SLOW_TESTS", "").lower() in ("1", "true", "yes")
    return pytest.mark.skipif(skipped, reason="SKIP_SLOW_TESTS is set")(pytest.mark.slow(func))


def feature_of(target: str) -> Feature | None:
    """The feature that running a target needs."""
    kind = target.split()[0]
    known = (
        requires_llvm,
        requires_cuda,
        requires_nvptx,
        requires_opencl,
        requires_rocm,
        requires_vulkan,
        requires_metal,
    )
    for feature in known:
        if feature.name == kind:
            return feature
    if kind in CODE_GENERATORS:
        return None
    return Feature(kind, kind, _target_check(kind, kind))
