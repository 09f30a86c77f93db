"""The engine's builder under its classic name."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.ir import IRModule
from tilewright.meta_schedule.builder.builder import Builder, BuilderInput, BuilderResult
from tilewright.meta_schedule.utils import get_global_func_with_default_on_worker
from tilewright.runtime import Module
from tilewright.support.files import temporary_folder
from tilewright.support.workers import Job
from tilewright.target import Target
from tilewright.tuning import building
from tilewright.tuning.inputs import kernel_of
from tilewright.tuning.measure import Built, Source
from tilewright.tuning.weight_layouts import measured_module

T_BUILD = Callable[[IRModule, Target, Mapping[str, Any] | None], Module]
T_EXPORT = Callable[[Module], str]


class LocalBuilder(Builder, kind="local"):
    """Compiles in processes of this machine.

    max_workers: processes; None: the processors that this process may use. timeout_sec: of a compilation. f_build: (module, target,
    params) -> runtime module, and f_export: runtime module -> path of a library, instead of `default_build` and `default_export`:
    functions that can be imported, or names of registered ones. initializer: what each process does first, such as registering them.
    """

    def __init__(
        self,
        *,
        max_workers: int | None = None,
        timeout_sec: float = 30.0,
        f_build: None | str | T_BUILD = None,
        f_export: None | str | T_EXPORT = None,
        initializer: Callable[[], None] | None = None,
    ) -> None:
        self.f_build, self.f_export = f_build, f_export
        self._engine = building.LocalBuilder(
            max_workers,
            timeout_sec,
            compile=_Compile(f_build, f_export),
            initializer=Job(initializer) if initializer is not None else None,
        )

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        sources = [Source(_Program.of(given), given.target) for given in build_inputs]
        with temporary_folder("tilewright-build-") as folder:
            return [_kept(built) for built in self._engine.build(sources, folder)]

    def close(self) -> None:
        """Ends the processes."""
        self._engine.close()


class _Program(NamedTuple):
    """A module with its constants, in the place of a program that has none."""

    program: IRModule
    params: Mapping[str, Any]

    @staticmethod
    def of(given: BuilderInput) -> Any:
        return _Program(given.mod, given.params) if given.params else given.mod


class _Compile:
    """What the engine's processes do with a program."""

    def __init__(self, f_build: None | str | T_BUILD, f_export: None | str | T_EXPORT) -> None:
        self.f_build, self.f_export = f_build, f_export

    def __call__(self, source: Source, path: Path) -> Path:
        given: Any = source.program
        mod, params = (given.program, given.params) if isinstance(given, _Program) else (given, None)
        if self.f_build is None and self.f_export is None:
            return building.compile_kernel(Source(mod, source.target), path)
        build = get_global_func_with_default_on_worker(self.f_build, default_build)
        export = get_global_func_with_default_on_worker(self.f_export, default_export)
        return Path(export(build(mod, source.target, params)))


def _kept(built: Built) -> BuilderResult:
    """The result of a build; its library is moved to a folder of its own."""
    if built.path is None:
        return BuilderResult(None, f"{built.failure.value if built.failure else 'build'}: {built.message}")
    folder = tempfile.mkdtemp(prefix="tilewright-kernel-")
    return BuilderResult(shutil.move(built.path, folder), None)


def default_build(mod: IRModule, target: Target, _params: Mapping[str, Any] | None) -> Module:
    """The runtime module of a kernel, which takes weights in their new layouts."""
    from tilewright.driver.build_module import build

    module: Module = build(measured_module(kernel_of(mod)), target=target)
    return module


def default_export(mod: Module) -> str:
    """The path of a library of a runtime module, in a new folder."""
    path = str(Path(tempfile.mkdtemp(prefix="tilewright-kernel-")) / "kernel.so")
    mod.export_library(path)
    return path


def get_local_builder() -> LocalBuilder:
    """A LocalBuilder of default parameters."""
    return LocalBuilder()
