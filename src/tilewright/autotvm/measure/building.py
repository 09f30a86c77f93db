"""The builder under its classic name, on that of the engine."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tilewright.autotvm.measure.measure import Builder, MeasureErrorNo, MeasureInput, MeasureResult
from tilewright.ir import IRModule
from tilewright.support import lazy
from tilewright.support.errors import TVMError
from tilewright.support.files import kept_folder
from tilewright.support.processors import usable_processors
from tilewright.te.schedule_apply import apply_schedule
from tilewright.tuning import building
from tilewright.tuning.inputs import signature_of
from tilewright.tuning.measure import ENTRY, Built, Failure, Source

# It is of the classic interfaces, a layer above this.
lazy.declare(__name__, {"ndk_shared": "tilewright.contrib.ndk:create_shared"})
__getattr__, __dir__ = lazy.late(__name__)

F = TypeVar("F", bound=Callable[..., Any])
ERRORS = {
    Failure.REFUSED: MeasureErrorNo.INSTANTIATION_ERROR,
    Failure.BUILD: MeasureErrorNo.COMPILE_HOST,
    Failure.BUILD_TIMEOUT: MeasureErrorNo.BUILD_TIMEOUT,
    Failure.RUN: MeasureErrorNo.RUNTIME_DEVICE,
    Failure.RUN_TIMEOUT: MeasureErrorNo.RUN_TIMEOUT,
    Failure.WRONG: MeasureErrorNo.WRONG_ANSWER,
    Failure.LOST: MeasureErrorNo.UNKNOWN_ERROR,
}


class BuildResult(NamedTuple):
    """A library that was built. filename: its path. arg_info: shape and dtype of each parameter. error: None. time_cost: seconds."""

    filename: str
    arg_info: tuple[tuple[tuple[int, ...], str], ...]
    error: Exception | None
    time_cost: float


def failed(error: MeasureErrorNo, message: str, seconds: float) -> MeasureResult:
    """The result of a measurement that ended with an error."""
    return MeasureResult((message,), error, seconds, time.time())


def program_of(given: MeasureInput) -> IRModule:
    """The scheduled program of a configuration. Raises what its template raises, and TVMError for a configuration that it refuses."""
    with given.target:
        schedule, arguments = given.task.instantiate(given.config)
    if not given.config.valid():
        raise TVMError(f"the template refuses the configuration: {'; '.join(given.config.errors)}")
    return IRModule.from_expr(apply_schedule(schedule, list(arguments)))


def exports_modules(output_format: str) -> Callable[[F], F]:
    """A build function that is given modules, `function(module, path)`, and not objects. output_format: the ending of its files."""

    def marked(function: F) -> F:
        function.__dict__.update(exports_modules=True, output_format=output_format)
        return function

    return marked


def compile_with(
    source: Source, path: Path, fcompile: Callable[..., Any] | None, runtime: Any, options: dict[str, Any]
) -> Path:
    """The library of a program, linked by a function such as `contrib.ndk.create_shared`; in a worker process. A function that
    `exports_modules` takes the module itself."""
    from tilewright.driver.build_module import build
    from tilewright.ir.transform import PassContext
    from tilewright.tuning.inputs import kernel_of

    library = path.with_suffix(f".{getattr(fcompile, 'output_format', 'so')}")
    with PassContext(opt_level=3, config=options):
        made = build(kernel_of(source.program), target=source.target, runtime=runtime, name=ENTRY)
        if fcompile is not None and getattr(fcompile, "exports_modules", False):
            fcompile(made, library)
        else:
            made.export_library(library, fcompile=fcompile)
    return library


class LocalBuilder(Builder):
    """Compiles in processes of this machine.

    timeout: seconds of a configuration. n_parallel: at once; None: as many as there are processors. build_func: "default"; "ndk", for
    Android; or a function that can be imported, as `Module.export_library` takes it. build_kwargs: {"build_option": options of the
    PassContext}. runtime: as `build` takes it. do_fork: makes no difference: processes are started once and not forked.
    """

    def __init__(
        self,
        timeout: float = 10,
        n_parallel: int | None = None,
        build_kwargs: dict[str, Any] | None = None,
        build_func: str | Callable[..., Any] = "default",
        do_fork: bool = False,
        runtime: Any = None,
    ) -> None:
        super().__init__(timeout, n_parallel or usable_processors(), build_kwargs)
        if isinstance(build_func, str) and build_func not in ("default", "ndk"):
            raise ValueError(f"build_func is 'default', 'ndk' or a function, but was given {build_func!r}")
        self.build_func, self.runtime, self.do_fork = build_func, runtime, do_fork
        self._engine: building.LocalBuilder | None = None

    def set_task(self, task: Any, build_kwargs: dict[str, Any] | None = None) -> None:
        super().set_task(task, build_kwargs)
        self.close()
        self._folder = kept_folder("tilewright-autotvm-")
        self._batch = 0
        self._engine = building.LocalBuilder(self.n_parallel, self.timeout, compile=self._compile())

    def close(self) -> None:
        """Ends the processes."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def _compile(self) -> building.Compile:
        options = self.build_kwargs.get("build_option", {})
        if self.build_func == "default" and self.runtime is None and not options:
            return building.compile_kernel
        function: Any = None if self.build_func == "default" else self.build_func
        if function == "ndk":
            function = sys.modules[__name__].ndk_shared
        return functools.partial(compile_with, fcompile=function, runtime=self.runtime, options=options)

    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[Any]:
        if self._engine is None:
            raise TVMError("a builder works for a task: call set_task first, or create_measure_batch")
        programs = [self._program(given) for given in measure_inputs]
        folder = Path(self._folder.name) / str(self._batch)
        folder.mkdir()
        self._batch += 1
        sources = [
            Source(program, given.target)
            for program, given in zip(programs, measure_inputs, strict=True)
            if isinstance(program, IRModule)
        ]
        built = iter(self._engine.build(sources, folder) if sources else [])
        return [_built(p, next(built)) if isinstance(p, IRModule) else p for p in programs]

    @staticmethod
    def _program(given: MeasureInput) -> IRModule | MeasureResult:
        begun = time.perf_counter()
        try:
            program = program_of(given)
            signature_of(program)
        except Exception as error:
            # A template is a program of the user: whatever it raises is what is wrong with this configuration.
            message = f"{type(error).__name__}: {error}"
            return failed(MeasureErrorNo.INSTANTIATION_ERROR, message, time.perf_counter() - begun)
        return program


def _built(program: IRModule, made: Built) -> BuildResult | MeasureResult:
    if made.path is None or made.failure is not None:
        return failed(ERRORS[made.failure or Failure.BUILD], made.message, made.seconds)
    arguments = tuple([(a.shape, a.dtype) for a in signature_of(program).arguments])
    return BuildResult(str(made.path), arguments, None, made.seconds)
