"""How a library is measured, wherever it runs."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.runtime import Device, Module, NDArray, ndarray
from tilewright.tuning.inputs import Values, difference, random_inputs
from tilewright.tuning.measure import ENTRY, Failure, Measured, Run, Signature
from tilewright.tuning.packing import Packing, packed
from tilewright.tuning.weight_layouts import layout_function

KEPT = 4
"""Libraries that stay loaded, since they are likely to run again: references, and best candidates."""

WARM_UP, SLIGHT = 1, 0.02
"""Calls that a time evaluator adds to each repeat; a difference that is none."""
AGREE, PATIENCE = 3, 3
"""While fewer repeats than these agree, the fastest one may have been interrupted as well: so many times the plan's seconds are spent."""


STEADY = 5e-4
"""Seconds of a call beside which neither the steps of this program matter nor what a first call finds in the caches."""
LONG = 0.02
"""Seconds of a first call beside which it does not matter that code and data come into the caches: such a call tells how slow a hopeless
library is."""


@dataclass(frozen=True)
class Plan:
    """How often a library is run.

    repeats: undisturbed repeats that are wanted of it, and of the library beside it. A repeat is as many calls as take min_repeat_ms: much
    longer than the clock's steps, and shorter than the time that the system lets a process run before another's turn (4 ms and more), so
    that some repeats have no interruption on a loaded machine too. disturbed: what makes a library slower comes from outside, so a repeat
    counts as undisturbed if it takes at most so many times the fastest. most: repeats after which there are no more. seconds: after which
    no further repeat begins, if some agree. hopeless: a library that takes so many times the time of the one beside it
    is measured twice at most, and is not compared exactly. slower: one that takes so many times its time in three repeats is not
    measured more exactly.
    cache_flush_bytes: written before each repeat, to empty caches. number: calls of a repeat at least.
    """

    repeats: int = 6
    min_repeat_ms: float = 3.0
    disturbed: float = 1.1
    most: int = 60
    seconds: float = 5.0
    hopeless: float = 2.0
    slower: float = 1.25
    cache_flush_bytes: int = 0
    number: int = 1


class _Timed(NamedTuple):
    """A library that runs: its module, its arguments, what measures one repeat of it, and seconds of a call, roughly: the least of `called`
    times."""

    module: Module
    arrays: list[NDArray]
    repeat: Callable[[], float]
    seconds: float
    called: int = 1


class Bench:
    """Inputs and libraries on a device, which stay there from one measurement to the next.

    load: loads a library by its path here. device: where it runs.
    """

    def __init__(self, load: Callable[[Path], Module], device: Device, plan: Plan) -> None:
        self._load, self._device, self._plan = load, device, plan
        self._signature: Signature | None = None
        self._inputs: list[Values] = []
        self._arrays: list[NDArray] = []
        self._expected: dict[tuple[Path, int], list[Values]] = {}
        self._kept: dict[tuple[Path, int], _Timed] = {}

    def prepare(self, signature: Signature, reference: Path | None) -> None:
        """Makes inputs, and runs the reference, where this is not done yet. Raises what loading and running raise."""
        if signature != self._signature:
            self._signature = None
            self._expected.clear()
            self._kept.clear()
            self._inputs = random_inputs(signature)
            self._arrays = [ndarray.array(values, self._device) for values in self._inputs]
            self._signature = signature
        if reference is not None and _key(reference) not in self._expected:
            self._expected[_key(reference)] = self._outputs(self._load(reference), self._arrays)

    def measure(self, run: Run) -> Measured:
        """The times of a library. Raises what loading and running raise."""
        begun = time.perf_counter()
        return self._measured(run)._replace(elapsed=time.perf_counter() - begun)

    def _measured(self, run: Run) -> Measured:
        self.prepare(run.signature, run.reference)
        module = self._load(run.library)
        arrays = self._arguments(module, run.packings)
        first = float("inf")
        if run.reference is not None:
            begun = time.perf_counter(), time.process_time()
            found = self._outputs(module, arrays)
            first = time.perf_counter() - begun[0]
            if self._device.device_type == Device.kDLCPU:
                first = min(first, time.process_time() - begun[1])  # without the turns of other programs
            wrong = difference(run.signature, found, self._expected[_key(run.reference)])
            if wrong:
                return Measured((), (), Failure.WRONG, wrong)
        beside = self._timed_beside(run.beside, run.beside_packings) if run.beside is not None else None
        if beside is not None and LONG <= first < float("inf") and self._is_hopeless(first / beside.repeat(), 1):
            return Measured((first,))
        candidate = self._timed_cold(module, arrays) if run.cold else self._timed(module, arrays)
        # Calls of slow kernels would take most of the time of tuning, so each is made use of.
        fastest = min(first, candidate.seconds)
        if beside is not None and self._is_hopeless(fastest / beside.repeat(), 1):
            return Measured((fastest,))
        candidate = candidate._replace(seconds=fastest, called=1 + (first < float("inf")))
        own, other, _ = self._repeats(candidate, beside)
        if not other or statistics.median(own) >= statistics.median(other):
            return Measured(own, other)
        # The least of many times is too good to be true: what seems to be the fastest so far is measured once again. Beside the reference
        # too, since the errors of comparisons each with the one before would add up.
        if run.reference is None or run.reference == run.beside:
            own, other, _ = self._repeats(candidate, beside)
            return Measured(own, other, reference=() if run.reference is None else other)
        own, other, compared = self._repeats(candidate, beside, self._timed_beside(run.reference, ()))
        return Measured(own, other, reference=compared)

    def _repeats(
        self, candidate: _Timed, beside: _Timed | None, reference: _Timed | None = None
    ) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
        """The undisturbed repeats of a library, of the one beside it, and of the reference, in turn."""
        plan, begun = self._plan, time.monotonic()
        own: list[float] = []
        other: list[float] = []
        compared: list[float] = []
        timed = [(candidate, own), (beside, other), (reference, compared)]
        sides = [(library, found) for library, found in timed if library is not None]
        for _ in range(max(plan.most, 1)):
            # Which one is first alternates too: what gets slower or faster meanwhile is the same for both.
            sides.reverse()
            for library, found in sides:
                found.append(library.repeat())
            if other and self._is_hopeless(min(*own, candidate.seconds) / min(other), len(own) + candidate.called - 1):
                # The other one's few repeats may all have been interrupted: nothing is to be scaled by them.
                return (min(*own, candidate.seconds),), (), ()
            if other and len(own) >= AGREE and min(own) > plan.slower * min(other):
                break
            agreeing = min([len(undisturbed(f, plan)) for _, f in sides])
            taken = time.monotonic() - begun
            if agreeing >= plan.repeats or taken > plan.seconds * (1 if agreeing >= AGREE else PATIENCE):
                break
        return undisturbed(own, plan), undisturbed(other, plan), undisturbed(compared, plan)

    def _is_hopeless(self, slower: float, repeats: int) -> bool:
        """A call, and a short repeat of few calls, may both have been interrupted; what is far slower was not only that."""
        return repeats <= 2 and slower > self._plan.hopeless * (4 if repeats == 1 else 1)

    def _arguments(self, module: Module, packings: Sequence[Packing]) -> list[NDArray]:
        """The arrays as a library takes them: some in other layouts, which are given, or which it has functions for."""
        arrays = list(self._arrays)
        for place, old, new in packings:
            arrays[place] = ndarray.array(packed(self._inputs[place], old, new), self._device)
        for place, array in enumerate(arrays):
            if module.implements_function(layout_function(place)):
                arrays[place] = ndarray.empty(array.shape, array.dtype, self._device)
                module[layout_function(place)](array, arrays[place])
        return arrays

    def _outputs(self, module: Module, arrays: list[NDArray]) -> list[Values]:
        """What a kernel computes. Its outputs have their first values before, since it may add to them."""
        signature = self._signature
        assert signature is not None
        for place in signature.outputs:
            arrays[place].copyfrom(self._inputs[place])
        module[ENTRY](*arrays)
        return [arrays[place].numpy() for place in signature.outputs]

    def _timed(self, module: Module, arrays: list[NDArray]) -> _Timed:
        """A library with as many calls in a repeat as the plan's time takes."""
        wanted, number = self._plan.min_repeat_ms / 1e3, 1
        # The first call may be slower than the others, and a single short one is not measured well.
        for share in (0.0, 0.02, 0.1):
            seconds = self._once(module, arrays, number)()
            if seconds * number >= wanted / 2:
                break
            number = max(math.ceil(max(share, 1e-3) * wanted / max(seconds, 1e-8)), 1)
        calls = max(math.ceil(wanted / max(seconds, 1e-8)), self._plan.number, 1)
        return _Timed(module, arrays, self._once(module, arrays, calls, seconds), seconds)

    def _timed_cold(self, module: Module, arrays: list[NDArray]) -> _Timed:
        """A library of which each repeat is a call that finds only its first array in the caches."""
        evaluator = module.time_evaluator(ENTRY, self._device, 1, 1, f_preproc="cache_flush_cpu_non_first_arg")

        def repeat() -> float:
            return evaluator(*arrays).results[0]

        return _Timed(module, arrays, repeat, repeat())

    def _timed_beside(self, path: Path, packings: Sequence[Packing]) -> _Timed:
        key = _key(path)
        if key not in self._kept:
            while len(self._kept) >= KEPT:
                del self._kept[next(iter(self._kept))]
            module = self._load(path)
            self._kept[key] = self._timed(module, self._arguments(module, packings))
        found = self._kept.pop(key)
        self._kept[key] = found
        found.module[ENTRY](*found.arrays)  # its code and data are in the caches again, as the candidate's are
        return found

    def _once(self, module: Module, arrays: list[NDArray], number: int, seconds: float = 0.0) -> Callable[[], float]:
        """What measures seconds of a call, over so many calls. seconds: of a call, roughly; 0 if that is not known."""
        # Not this object, which keeps what is returned here: arrays and sessions of boards go with the last reference to them.
        flushed = self._plan.cache_flush_bytes
        here = not flushed and self._device.device_type == Device.kDLCPU
        if here and seconds >= STEADY:
            return lambda: _called(module[ENTRY], arrays, number)
        evaluator = module.time_evaluator(ENTRY, self._device, number, 1, cache_flush_bytes=flushed)
        if not here:
            return lambda: evaluator(*arrays).results[0]

        def timed() -> float:
            before = time.perf_counter(), time.thread_time(), time.process_time()
            seconds = evaluator(*arrays).results[0]
            after = time.perf_counter(), time.thread_time(), time.process_time()
            wall, own, process = (b - a for a, b in zip(before, after, strict=True))
            return without_interruptions(seconds, number + WARM_UP, wall, own, process)

        return timed


def _called(entry: Callable[..., Any], arrays: Sequence[NDArray], number: int) -> float:
    """Seconds of a call, over so many calls, without the warm-up of a time evaluator."""
    before = time.perf_counter(), time.thread_time(), time.process_time()
    for _ in range(number):
        entry(*arrays)
    after = time.perf_counter(), time.thread_time(), time.process_time()
    wall, own, process = (b - a for a, b in zip(before, after, strict=True))
    return without_interruptions(wall / number, number, wall, own, process)


def without_interruptions(seconds: float, calls: int, wall: float, own: float, process: float) -> float:
    """Seconds of a call, without the time in which the system ran other programs. It is known for kernels that run in one thread, by the
    processor time of this thread and of the whole process during all calls. Long calls have no repeat without interruptions on a loaded
    machine, and would seem to be slower than short ones."""
    alone = process - own <= SLIGHT * own + 1e-4
    return min(seconds, own / calls) if alone and wall - own > SLIGHT * wall else seconds


def undisturbed(seconds: Sequence[float], plan: Plan) -> tuple[float, ...]:
    """The repeats that are not much slower than the fastest one, in their order."""
    most = plan.disturbed * min(seconds, default=0.0)
    return tuple([s for s in seconds if s <= most])


def _key(path: Path) -> tuple[Path, int]:
    """What tells a library from another one that was written to the same path later."""
    return path, path.stat().st_mtime_ns
