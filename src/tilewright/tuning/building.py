"""Scheduled programs to libraries, in processes of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tilewright.support.processors import usable_processors
from tilewright.support.workers import Ending, Job, Options, Outcome, Pool
from tilewright.tuning.measure import Builder, Built, Failure, Source

MEMORY = 4 << 30
"""Bytes that a compilation may take."""

Compile = Callable[[Source, Path], Path]
"""Compiles a program to a library whose name begins as the path says, and returns its path. It runs in a worker process."""


def compile_kernel(source: Source, path: Path) -> Path:
    """The library of a scheduled program: its single function is named ENTRY. It is linked as the target's loader takes it. Copies of
    weights into other layouts are functions of their own (`weight_layouts`).

    Raises TVMError where it cannot be compiled, or linked on this machine.
    """
    from tilewright.codegen.backend import back_end_of, host_target
    from tilewright.driver.build_module import build
    from tilewright.support.object_kind import COFF, MACH_O
    from tilewright.tir.function import IN_PLACE
    from tilewright.tuning.inputs import kernel_of
    from tilewright.tuning.weight_layouts import measured_module

    host = host_target(source.target)
    suffixes = {MACH_O: ".dylib", COFF: ".dll"}
    suffix = suffixes.get(back_end_of(host).object_kind(host).container, ".so")
    library = path.with_suffix(suffix)
    # It is measured with arrays that are apart.
    kernel = kernel_of(source.program).without_attr(IN_PLACE)
    build(measured_module(kernel), target=source.target).export_library(library)
    return library


class LocalBuilder(Builder):
    """Compiles in processes of this machine, which are started once and stay until `close`.

    processes: at once; by default the processors that this process may use. timeout: seconds of a compilation. memory: bytes that one may
    take; None: no limit. compile: a function that can be imported, instead of `compile_kernel`. initializer: what each process does first,
    such as registering intrinsics.
    """

    def __init__(
        self,
        processes: int | None = None,
        timeout: float = 30.0,
        memory: int | None = MEMORY,
        compile: Compile = compile_kernel,
        initializer: Job | None = None,
    ) -> None:
        self.timeout, self.compile = timeout, compile
        options = Options(
            memory,
            preload=("tilewright.tuning.building", "tilewright.driver.build_module", "tilewright.codegen.llvm"),
            initializer=initializer,
            # What is compiled once, to be measured once, would push the user's models out of the cache.
            environment={"TILEWRIGHT_CACHE_BYTES": "0"},
        )
        self._pool = Pool(processes if processes is not None else usable_processors(), options)

    def build(self, sources: Sequence[Source], folder: Path) -> list[Built]:
        """A library of each program, in the folder, in the order of the programs."""
        jobs = [
            Job(_timed, (self.compile, source, folder / str(i)), timeout=self.timeout)
            for i, source in enumerate(sources)
        ]
        return [self._built(outcome) for outcome in self._pool.run(jobs)]

    def _built(self, outcome: Outcome) -> Built:
        if outcome.ending is Ending.DONE:
            path, seconds = outcome.value
            return Built(path, seconds)
        late = outcome.ending is Ending.TIMEOUT
        message = outcome.message.removeprefix("TVMError: ")
        return Built(None, self.timeout if late else 0.0, Failure.BUILD_TIMEOUT if late else Failure.BUILD, message)

    @property
    def pids(self) -> list[int]:
        """The numbers of its processes."""
        return self._pool.pids

    def close(self) -> None:
        """Ends the processes."""
        self._pool.close()


def _timed(compile: Compile, source: Source, path: Path) -> tuple[Path, float]:
    begun = time.perf_counter()
    library = compile(source, path)
    return library, time.perf_counter() - begun
