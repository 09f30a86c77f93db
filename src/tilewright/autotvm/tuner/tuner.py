"""The loop of tuning, and what all tuners have."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tilewright.autotvm.env import GLOBAL_SCOPE
from tilewright.autotvm.measure.measure import MeasureErrorNo, MeasureInput, MeasureResult, create_measure_batch
from tilewright.autotvm.task.possible import why_refused
from tilewright.autotvm.utils import format_si_prefix
from tilewright.tuning.plausible import reasons

logger = logging.getLogger("autotvm")

Callback = Callable[[Any, Sequence[MeasureInput], Sequence[MeasureResult]], None]


class Tuner:
    """Chooses configurations of a task and measures them. A subclass says which: `next_batch`, `update`, `has_next`, `load_history`.

    best_config, best_flops, best_measure_pair, best_iter: of the fastest so far. ttl: measurements until it stops, if none is faster.
    """

    def __init__(self, task: Any, **kwargs: Any) -> None:
        self.param = kwargs
        self.task = task
        self.space = task.config_space
        self._error_threshold = 150
        self.reset()

    def reset(self) -> None:
        """Forgets what was measured."""
        self.best_config: Any = None
        self.best_flops = 0.0
        self.best_measure_pair: tuple[MeasureInput, MeasureResult] | None = None
        self.best_iter = 0
        self.ttl = 0
        self.n_parallel = 1
        self._failures: list[MeasureResult] = []
        self._in_row = 0

    def has_next(self) -> bool:
        """Whether there are configurations that were not measured."""
        raise NotImplementedError(f"{type(self).__name__} does not say whether it has configurations")

    def next_batch(self, batch_size: int) -> list[Any]:
        """So many configurations to be measured; fewer where there are not more."""
        raise NotImplementedError(f"{type(self).__name__} does not choose configurations")

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learns from measurements."""

    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500) -> None:
        """Learns from records of earlier measurements. min_seed_records: fewer records are not used."""
        raise NotImplementedError(f"{type(self).__name__} does not learn from records")

    def set_error_threshold(self, threshold: int) -> None:
        """After so many failures in a row, each is written to the log `autotvm` with its message."""
        self._error_threshold = threshold

    def tune(
        self,
        n_trial: int,
        measure_option: dict[str, Any],
        early_stopping: int | None = None,
        callbacks: Sequence[Callback] = (),
        si_prefix: str = "G",
    ) -> None:
        """Measures configurations, until there are n_trial measurements, none left, or none that was faster among the last early_stopping.

        callbacks: are called with the tuner, the inputs and the results of each batch, such as those of `tuner.callback`. si_prefix: of
        FLOPS in messages. A time that no machine can reach is a failure. If no configuration could be measured, a warning of the log
        `autotvm` says why: the most frequent reasons. best_config is None then, and builds use no record of the task.
        """
        format_si_prefix(0, si_prefix)
        measure_batch = create_measure_batch(self.task, measure_option)
        self.n_parallel = measure_batch.n_parallel  # type: ignore[attr-defined]
        patience = early_stopping if early_stopping is not None else n_trial
        GLOBAL_SCOPE.in_tuning = True
        done = 0
        try:
            while done < n_trial and self.has_next():
                configs = self.next_batch(min(self.n_parallel, n_trial - done))
                if not configs:
                    break
                inputs = [MeasureInput(self.task.target, self.task, config) for config in configs]
                results = [_true(given, result) for given, result in zip(inputs, measure_batch(inputs), strict=True)]
                for given, result in zip(inputs, results, strict=True):
                    done += 1
                    self._note(done, given, result, si_prefix)
                self.ttl = min(patience + self.best_iter, n_trial) - done
                self.update(inputs, results)
                if not self.has_next():
                    self.ttl = 0
                for callback in callbacks:
                    callback(self, inputs, results)
                if done - self.best_iter >= patience:
                    logger.debug("early stopped: best is measurement %d", self.best_iter)
                    break
        finally:
            GLOBAL_SCOPE.in_tuning = False
            for part in measure_option.values():
                if hasattr(part, "close"):
                    part.close()
        if done and len(self._failures) == done:
            logger.warning("%s", self._why(done))

    def _note(self, number: int, given: MeasureInput, result: MeasureResult, si_prefix: str) -> None:
        if result.error_no != MeasureErrorNo.NO_ERROR:
            self._failures.append(result)
            self._in_row += 1
            level = logging.WARNING if self._in_row > self._error_threshold else logging.DEBUG
            logger.log(level, "No: %d  %s: %s  %s", number, _name(result), _first_line(result), given.config)
            return
        self._in_row = 0
        flops = given.task.flop / float(np.mean(result.costs))
        if flops > self.best_flops:
            self.best_flops, self.best_config, self.best_iter = flops, given.config, number
            self.best_measure_pair = (given, result)
        now, best = format_si_prefix(flops, si_prefix), format_si_prefix(self.best_flops, si_prefix)
        logger.debug("No: %d  %sFLOPS: %.2f/%.2f  result: %s  %s", number, si_prefix, now, best, result, given.config)

    def _why(self, done: int) -> str:
        """What is said where all measurements failed."""
        found = reasons([(_name(result), str(result.costs[0] if result.costs else "")) for result in self._failures])
        return (
            f"no configuration of {self.task.name}{self.task.args} could be measured: all {done} that were tried failed."
            f" It stays untuned. The most frequent reasons:{found}"
        )


def _true(given: MeasureInput, result: MeasureResult) -> MeasureResult:
    """The result; a failure in its place if its time cannot be true."""
    why = "" if result.error_no else why_refused(given, result)
    if not why:
        return result
    return MeasureResult((why,), MeasureErrorNo.UNKNOWN_ERROR, result.all_cost, result.timestamp)


def _name(result: MeasureResult) -> str:
    return MeasureErrorNo(result.error_no).name


def _first_line(result: MeasureResult) -> str:
    return str(result.costs[0] if result.costs else "").strip().partition("\n")[0]
