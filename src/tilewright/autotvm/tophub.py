"""Collections of records by backend, under the classic names.

The classic collections are of other loops under the names of the templates here, and this package downloads nothing. So there are no
records by default (`AUTOTVM_TOPHUB_DEFAULT_LOC` is "NONE"). A folder with packages of your own can be named by the environment variable
TOPHUB_LOCATION: a package is a log, `<backend>_<version>.log`. It is copied below `AUTOTVM_TOPHUB_ROOT_PATH` when it is first used.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tilewright.autotvm.record import load_from_file
from tilewright.autotvm.task.history import ApplyHistoryBest, Pair
from tilewright.support.errors import TVMError
from tilewright.target import Target

logger = logging.getLogger("autotvm")

AUTOTVM_TOPHUB_LOC_VAR = "TOPHUB_LOCATION"
"""The environment variable that names a folder with packages."""
AUTOTVM_TOPHUB_NONE_LOC = "NONE"
"""A location without packages."""
AUTOTVM_TOPHUB_DEFAULT_LOC = AUTOTVM_TOPHUB_NONE_LOC
AUTOTVM_TOPHUB_ROOT_PATH = Path.home() / ".tvm" / "tophub"
"""Where packages are kept."""
PACKAGE_VERSION = {"arm_cpu": "v0.08", "llvm": "v0.04"}
"""The versions of packages by backend."""
REFERENCE_LOG_CACHE: dict[str, list[Pair]] = {}
"""Records of packages that were read, by backend."""


def context(
    target: Target | str | Sequence[Target | str], extra_files: Iterable[Any] | None = None
) -> ApplyHistoryBest:
    """A context with the records of the packages for a target or for several, where there are packages, and of further logs."""
    best = ApplyHistoryBest([])
    location = os.environ.get(AUTOTVM_TOPHUB_LOC_VAR, AUTOTVM_TOPHUB_DEFAULT_LOC)
    if location != AUTOTVM_TOPHUB_NONE_LOC:
        several: Any = target if isinstance(target, (list, tuple)) else [target]
        for given in several:
            backend = next((b for b in _backends(given) if check_backend(location, b)), None)
            if backend is not None:
                best.load(_path(backend))
    for file in extra_files or ():
        best.load(file)
    return best


def _backends(target: Target | str) -> list[str]:
    """The backends whose packages a target can use, the closest first."""
    chosen = Target(target) if isinstance(target, str) else target
    return [name for name in dict.fromkeys([*chosen.keys, str(chosen.kind)]) if name in PACKAGE_VERSION]


def _package(backend: str) -> str:
    return f"{backend}_{PACKAGE_VERSION[backend]}.log"


def _path(backend: str) -> Path:
    return AUTOTVM_TOPHUB_ROOT_PATH / _package(backend)


def check_backend(tophub_location: str, backend: str) -> bool:
    """Whether the package of a backend is there, or can be copied from the location. Raises TVMError for a backend that has none."""
    if backend not in PACKAGE_VERSION:
        raise TVMError(f"there is no package of records for {backend!r}; there are {', '.join(PACKAGE_VERSION)}")
    if _path(backend).is_file():
        return True
    try:
        download_package(tophub_location, _package(backend))
    except TVMError as error:
        logger.warning("%s", error)
        return False
    return True


def download_package(tophub_location: str, package_name: str) -> None:
    """Copies a package from a folder below AUTOTVM_TOPHUB_ROOT_PATH. Raises TVMError if the location is no folder or lacks the package."""
    source = Path(tophub_location) / package_name
    if not source.is_file():
        raise TVMError(
            f"the package {package_name} is not in {tophub_location!r}; {AUTOTVM_TOPHUB_LOC_VAR} names a folder with packages, since"
            " nothing is downloaded"
        )
    AUTOTVM_TOPHUB_ROOT_PATH.mkdir(parents=True, exist_ok=True)
    part = AUTOTVM_TOPHUB_ROOT_PATH / f"part{os.getpid()}-{package_name}"
    shutil.copyfile(source, part)
    part.rename(AUTOTVM_TOPHUB_ROOT_PATH / package_name)


def load_reference_log(backend: str, model: str, workload_name: str) -> list[Pair]:
    """The records of a template in the package of a backend, for `FallbackConfigEntity.fallback_with_reference_log`: those of a model, or
    if it has none, those of the model with the most; none without a package."""
    if backend not in REFERENCE_LOG_CACHE:
        known = backend in PACKAGE_VERSION and _path(backend).is_file()
        REFERENCE_LOG_CACHE[backend] = [*load_from_file(_path(backend))] if known else []
    by_model: dict[str, list[Pair]] = {}
    for pair in REFERENCE_LOG_CACHE[backend]:
        if pair[0].task.workload[0] == workload_name and not pair[1].error_no:
            by_model.setdefault(str(pair[0].target.model), []).append(pair)
    return by_model.get(model) or max(by_model.values(), key=len, default=[])


__all__ = [
    "AUTOTVM_TOPHUB_DEFAULT_LOC", "AUTOTVM_TOPHUB_LOC_VAR", "AUTOTVM_TOPHUB_NONE_LOC", "AUTOTVM_TOPHUB_ROOT_PATH",
    "PACKAGE_VERSION", "REFERENCE_LOG_CACHE", "check_backend", "context", "download_package", "load_reference_log",
]  # fmt: skip
