"""Measurements in the tasks of a Ray cluster."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from tilewright.support.errors import TVMError
from tilewright.support.files import kept_folder
from tilewright.tuning.measure import Failure, Measured, Run, Runner
from tilewright.tuning.packing import Packing
from tilewright.tuning.running.local import LocalRunner
from tilewright.tuning.running.measuring import Plan

AT_ONCE = 256
"""Measurements of a session that the cluster is asked for at once."""
WAITS = 600.0
"""Seconds that a task may wait for a place in the cluster."""


class RayRunner(Runner):
    """Measures on the machines of a Ray cluster, as LocalRunner does on this one. They have this package, and processors of one kind.

    address: of the cluster, as `ray.init` takes it; None: that which is connected, else one of this machine. cpus: processors that a task
    reserves; with all of a machine, nothing else of the cluster disturbs it. machines: whether they are others than this. The others are
    those of LocalRunner. Raises TVMError without the package ray.
    """

    def __init__(
        self,
        address: str | None = None,
        timeout: float = 10.0,
        plan: Plan | None = None,
        threads: int | None = None,
        cpus: float = 1,
        device: str = "cpu",
        machines: bool = True,
    ) -> None:
        self._ray = _ray()
        self.apart = machines
        if not self._ray.is_initialized():
            self._ray.init(address=address, log_to_driver=False, include_dashboard=False)
        self._settings = (timeout, plan, threads, device)
        # The reference and the best candidate take part in the time of a task.
        self._task = self._ray.remote(num_cpus=cpus, max_retries=1)(_measured)
        self._timeout = WAITS + 3 * timeout
        self._threads: ThreadPoolExecutor | None = None
        self._running: set[Any] = set()

    def submit(self, run: Run) -> Future[Measured]:
        """The times of a library, once the cluster has measured it."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(AT_ONCE, "tilewright-ray")
        return self._threads.submit(lambda: self.run([run])[0])

    def close(self) -> None:
        """Ends what is being measured."""
        threads, self._threads = self._threads, None
        for task in list(self._running):
            self._ray.cancel(task, force=True)
        if threads is not None:
            threads.shutdown(cancel_futures=True)

    def run(self, runs: Sequence[Run]) -> list[Measured]:
        """The times of each library, in the order of the libraries."""
        paths = {path for run in runs for path in (run.library, run.reference, run.beside) if path is not None}
        stored = {path: self._ray.put((path.suffix, path.read_bytes())) for path in paths}
        tasks = [
            self._task.remote(
                self._settings,
                run.signature,
                stored[run.library],
                stored[run.reference] if run.reference is not None else None,
                stored[run.beside] if run.beside is not None else None,
                (run.packings, run.beside_packings, run.cold),
            )
            for run in runs
        ]
        self._running.update(tasks)
        try:
            return [self._found(task) for task in tasks]
        except BaseException:
            for task in tasks:
                self._ray.cancel(task, force=True)
            raise
        finally:
            self._running.difference_update(tasks)

    def _found(self, task: Any) -> Measured:
        try:
            found: Measured = self._ray.get(task, timeout=self._timeout)
        except self._ray.exceptions.RayError as error:
            self._ray.cancel(task, force=True)
            return Measured((), (), Failure.LOST, f"Ray lost the measurement: {str(error).strip().splitlines()[0]}")
        return found


def _ray() -> Any:
    try:
        return import_module("ray")
    except ImportError as error:
        raise TVMError("measuring in a Ray cluster needs the package ray: `pip install 'tilewright[farm]'`") from error


class _Node:
    """In a process of Ray: a runner, and the libraries that were sent to it."""

    def __init__(self, settings: tuple[Any, ...]) -> None:
        timeout, plan, threads, device = settings
        self.settings = settings
        self.runner = LocalRunner(timeout, plan, threads, device=device)
        self._folder = kept_folder("tilewright-ray-")

    def path(self, library: tuple[str, bytes] | None) -> Path | None:
        """The library as a file, which is the same for the same library."""
        if library is None:
            return None
        suffix, data = library
        found = Path(self._folder.name) / (hashlib.blake2b(data, digest_size=16).hexdigest() + suffix)
        if not found.exists():
            found.write_bytes(data)
        return found


_node: _Node | None = None


def _measured(
    settings: tuple[Any, ...],
    signature: Any,
    library: tuple[str, bytes],
    reference: tuple[str, bytes] | None,
    beside: tuple[str, bytes] | None,
    others: tuple[tuple[Packing, ...], tuple[Packing, ...], bool] = ((), (), False),
) -> Measured:
    """A task of Ray."""
    global _node
    if _node is None or _node.settings != settings:
        _node = _Node(settings)
    own = _node.path(library)
    assert own is not None
    run = Run(own, signature, _node.path(reference), _node.path(beside), *others)
    (found,) = _node.runner.run([run])
    if own not in (run.reference, run.beside):
        own.unlink()
    return found
