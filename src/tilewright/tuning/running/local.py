"""Measurements in a process of this machine."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from tilewright.support.errors import TVMError
from tilewright.support.workers import Ending, Job, Options, Outcome, Worker
from tilewright.tuning.measure import Failure, Measured, Run, Runner, Signature
from tilewright.tuning.running.measuring import Bench, Plan

MEMORY = 16 << 30
"""Bytes that the process may take for inputs, outputs and what a kernel allocates."""


class LocalRunner(Runner):
    """Measures in one process apart from this, which stays until `close` or until a candidate hangs or dies.

    timeout: seconds of a candidate, and of the reference. plan: how often it is run; by default its repeats take a second at most.
    threads: of parallel loops; by default the processors that this process may use. memory: bytes; None: no limit. device: its kind.
    """

    def __init__(
        self,
        timeout: float = 10.0,
        plan: Plan | None = None,
        threads: int | None = None,
        memory: int | None = MEMORY,
        device: str = "cpu",
    ) -> None:
        self.timeout, self.device = timeout, device
        self.plan = plan if plan is not None else Plan(seconds=min(timeout / 2, 1.0))
        environment = {"TVM_NUM_THREADS": str(threads)} if threads is not None else None
        self._worker = Worker(Options(memory, preload=(__name__,), environment=environment))
        self._used = self._closes = False
        self._lock = threading.Lock()

    def run(self, runs: Sequence[Run]) -> list[Measured]:
        """The times of each library, in the order of the libraries."""
        with self._lock:
            self._closes = False
            return [self._run(run) for run in runs]

    @property
    def pid(self) -> int | None:
        """The number of its process; None while there is none."""
        return self._worker.pid

    def close(self) -> None:
        """Ends the process. What is being measured in another thread fails."""
        self._closes = True
        self._worker.kill()

    def _run(self, run: Run) -> Measured:
        used = self._worker.is_alive and self._used
        found = self._measured(run)
        if used and not self._closes and found.failure in (Failure.RUN, Failure.WRONG):
            # Not what an earlier candidate did to the memory of the process decides.
            self._worker.kill()
            found = self._measured(run)
        if found.failure is Failure.WRONG:
            self._worker.kill()
        return found

    def _measured(self, run: Run) -> Measured:
        plan, timeout, self._used = self.plan, self.timeout, True
        ready = self._worker.run(Job(_prepare, (plan, self.device, run.signature, run.reference), timeout=timeout))
        if ready.ending is not Ending.DONE:
            return failed(ready, "the untuned kernel, with which it is compared: ")
        outcome = self._worker.run(Job(_measure, (plan, self.device, run), timeout=timeout))
        if outcome.ending is Ending.DONE:
            found: Measured = outcome.value
            return found
        return failed(outcome)


def failed(outcome: Outcome, before: str = "") -> Measured:
    """What is told of a measurement that its worker did not finish."""
    failure = Failure.RUN_TIMEOUT if outcome.ending is Ending.TIMEOUT else Failure.RUN
    return Measured((), (), failure, before + outcome.message.removeprefix("TVMError: "))


_bench: dict[tuple[Plan, str], Bench] = {}
"""In a worker: its bench."""


def _own_bench(plan: Plan, device: str) -> Bench:
    from tilewright.runtime import device as device_of
    from tilewright.runtime import load_module

    if (plan, device) not in _bench:
        place = device_of(device, 0)
        if not place.exist:
            raise TVMError(f"this machine has no device {device!r} to measure on")
        _bench[plan, device] = Bench(load_module, place, plan)
    return _bench[plan, device]


def _prepare(plan: Plan, device: str, signature: Signature, reference: Path | None) -> None:
    _own_bench(plan, device).prepare(signature, reference)


def _measure(plan: Plan, device: str, run: Run) -> Measured:
    return _own_bench(plan, device).measure(run)
