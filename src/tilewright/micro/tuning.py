"""AutoTVM on microcontrollers: a builder of objects, and a runner that measures by the clocks of boards, several at once."""

from __future__ import annotations

import queue
import tarfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.autotvm.measure.building import BuildResult, LocalBuilder, failed
from tilewright.autotvm.measure.measure import MeasureErrorNo, MeasureInput, MeasureResult, Runner
from tilewright.micro.debug_session import DebugSession
from tilewright.micro.device import configuration
from tilewright.micro.device_runtime import objects_for
from tilewright.micro.errors import ConnectionLost, DeviceTimeout, LinkError, MicroError
from tilewright.micro.module import module_of
from tilewright.runtime import NDArray, ndarray


def tar_of_objects(path: str, files: Sequence[str], **_options: Any) -> None:
    """Writes objects as an archive: what a builder calls in the place of a linker."""
    with tarfile.open(path, "w") as tar:
        for file in files:
            tar.add(file, Path(file).name)


tar_of_objects.output_format = "tar"  # type: ignore[attr-defined]


def micro_builder(timeout: float = 10, n_parallel: int | None = None) -> LocalBuilder:
    """The builder of objects for `MicroRunner`. timeout: seconds of a configuration; n_parallel: at once."""
    return LocalBuilder(timeout, n_parallel, build_func=tar_of_objects)


def measuring_configuration(device_config: Any, n_parallel: int) -> dict[str, Any]:
    """The configuration of boards that measure. Raises MicroError where their clock measures nothing, or where there are fewer boards."""
    config = configuration(device_config)
    if config["comms_method"] == "qemu" and config["instruction_shift"] is None:
        raise MicroError(
            "QEMU's clock is that of this machine, which measures nothing; give the configuration an instruction_shift"
        )
    if config["comms_method"] == "gdb" and n_parallel > 1:
        raise MicroError("a server of GDB's protocol has one board; measure with n_parallel=1")
    return config


class MicroRunner(Runner):
    """Measures on boards over debug connections.

    device_config: as `Session` takes it. Under QEMU it needs instruction_shift, without which its clock is that of this machine.
    n_parallel: boards at once, each with a session of its own. number: calls of which a result is the mean; repeat: results. timeout:
    seconds of a batch of calls; default: that of the configuration.

    Configurations that fault, do not fit, or take too long are results with an error. A board that is lost is connected anew.
    """

    def __init__(
        self, device_config: Any, n_parallel: int = 1, number: int = 1, repeat: int = 1, timeout: float | None = None
    ) -> None:
        config = measuring_configuration(device_config, n_parallel)
        if timeout is not None:
            config = {**config, "timeout": timeout}
        super().__init__(config["timeout"], n_parallel)
        self.config, self.number, self.repeat = config, number, repeat
        self.ref_input: Sequence[Any] | None = None
        """What programs are measured on: an array for each parameter. None: random numbers."""
        self._boards: queue.SimpleQueue[_Board] = queue.SimpleQueue()
        self._open: list[_Board] = []

    def set_task(self, task: Any) -> None:
        """Opens the sessions, where that has not been done."""
        super().set_task(task)
        while len(self._open) < self.n_parallel:
            board = _Board(self.config)
            self._open.append(board)
            self._boards.put(board)

    def close(self) -> None:
        """Ends the sessions."""
        for board in self._open:
            board.close()
        self._open.clear()
        self._boards = queue.SimpleQueue()

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        with ThreadPoolExecutor(self.n_parallel) as pool:
            return list(pool.map(self._one, build_results))

    def _one(self, built: Any) -> MeasureResult:
        if not isinstance(built, BuildResult):
            result: MeasureResult = built
            return result
        board, begun = self._boards.get(), time.perf_counter()

        def spent() -> float:
            return built.time_cost + time.perf_counter() - begun

        try:
            costs = board.measure(built, self.number, self.repeat, self.ref_input)
        except DeviceTimeout as error:
            return failed(MeasureErrorNo.RUN_TIMEOUT, str(error), spent())
        except (ConnectionLost, OSError) as error:
            board.close()
            return failed(MeasureErrorNo.UNKNOWN_ERROR, str(error), spent())
        except (MicroError, LinkError, MemoryError, TypeError, ValueError) as error:
            return failed(MeasureErrorNo.RUNTIME_DEVICE, f"{type(error).__name__}: {error}", spent())
        finally:
            self._boards.put(board)
        return MeasureResult(tuple(costs), MeasureErrorNo.NO_ERROR, spent(), time.time())


class _Board:
    """A board with a session, which is opened when it is first needed, and again after it was lost."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.session: DebugSession | None = None
        self.arrays: dict[Any, list[NDArray]] = {}

    def close(self) -> None:
        """Ends the session."""
        session, self.session = self.session, None
        self.arrays.clear()
        if session is not None:
            with suppress(MicroError, OSError):
                session.close()

    def _given(self, built: BuildResult, values: Sequence[Any] | None) -> list[NDArray]:
        """The arguments on the device; those of the last program, where they are of the same kinds."""
        assert self.session is not None
        if built.arg_info not in self.arrays:
            self.arrays.clear()
            random = np.random.default_rng(0)
            found = values if values is not None else [_random(random, *a) for a in built.arg_info]
            self.arrays[built.arg_info] = [ndarray.array(v, self.session.device) for v in found]
        return self.arrays[built.arg_info]

    def measure(self, built: BuildResult, number: int, repeat: int, values: Sequence[Any] | None) -> Sequence[float]:
        """Seconds of a call, by the device's clock, so many times."""
        if self.session is None:
            self.session = DebugSession(self.config)
            self.session.__enter__()
        session = self.session
        with tarfile.open(built.filename) as tar:
            found = {m.name: data.read() for m in tar if (data := tar.extractfile(m)) is not None}
        module = module_of(session, objects_for(session.board, found))
        try:
            given = self._given(built, values)
            evaluate: Callable[..., Any] = module.time_evaluator(module.names[0], session.device, number, repeat)
            results: Sequence[float] = evaluate(*given).results
        finally:
            with suppress(MicroError):
                module.unload()
        return results


def _random(random: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        return random.integers(0, 100, shape).astype(kind)
    return random.standard_normal(shape).astype(kind)


__all__ = ["MicroRunner", "measuring_configuration", "micro_builder", "tar_of_objects"]
