"""Records whose times cannot be true."""

from __future__ import annotations

import functools
import logging
from math import prod
from typing import Any

import numpy as np

from tilewright.autotvm.measure.measure import MeasureInput, MeasureResult
from tilewright.autotvm.task.task import create
from tilewright.support.errors import TVMError
from tilewright.tuning.plausible import peak_flops, why_impossible

MANY = 1e12
"""Operations of a kernel: hardly one has more."""
logger = logging.getLogger("autotvm")


def why_refused(given: MeasureInput, result: MeasureResult) -> str:
    """Why the time of a measurement that did not fail cannot be true; "" if it can."""
    for cost in result.costs:
        why = why_impossible(float(cost))
        if why:
            return why
    if not result.costs:
        return "it has no time"
    task, target = given.task, given.target
    tensors = [a for a in task.args if _is_tensor(a)]
    seconds, peak = float(np.mean(result.costs)), peak_flops(target, min([_bits(a[2]) for a in tensors], default=32))
    if task.flop is not None:
        return why_impossible(seconds, float(task.flop), peak)
    # The template is called only where its operations may decide.
    sizes = sorted([prod(a[1]) for a in tensors])[-2:]
    most = 2.0 * prod(sizes) if len(sizes) == 2 else MANY
    return (
        why_impossible(seconds, _flops(task.name, task.args, str(target)), peak)
        if why_impossible(seconds, most, peak)
        else ""
    )


def is_possible(given: MeasureInput, result: MeasureResult) -> bool:
    """Whether a measurement that did not fail can be true; otherwise a warning says why not."""
    why = why_refused(given, result)
    if why:
        logger.warning("a record of %s%s for %s is not used: %s", given.task.name, given.task.args, given.target, why)
    return not why


@functools.lru_cache(maxsize=1024)
def _flops(name: str, args: tuple[Any, ...], target: str) -> float:
    """Operations of a task; 0 where its template is not there, or refuses."""
    try:
        return float(create(name, args, target).flop or 0)
    except (RuntimeError, TypeError, ValueError, TVMError):
        return 0.0


def _is_tensor(argument: Any) -> bool:
    return isinstance(argument, tuple) and len(argument) == 3 and argument[0] == "TENSOR"


def _bits(dtype: str) -> int:
    return int("".join([c for c in dtype.partition("x")[0] if c.isdigit()]) or 32)
