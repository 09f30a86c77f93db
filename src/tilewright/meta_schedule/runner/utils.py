"""The steps of a measurement that functions of users can replace: arguments, and running."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.meta_schedule.arg_info import ArgInfo, TensorInfo
from tilewright.meta_schedule.runner.config import FLUSHED, EvaluatorConfig
from tilewright.runtime import Device, Module, NDArray, ndarray
from tilewright.support.errors import TVMError
from tilewright.tuning.inputs import random_input
from tilewright.tuning.measure import ENTRY, Argument

T_ARG_INFO_JSON_OBJ = list[Any]
T_ARG_INFO_JSON_OBJ_LIST = list[T_ARG_INFO_JSON_OBJ]
T_ARGUMENT = Any
T_ARGUMENT_LIST = list[T_ARGUMENT]


def random_fill(array: NDArray) -> None:
    """Fills an array with random values, the same each time."""
    argument = Argument(tuple([int(n) for n in array.shape]), str(array.dtype))
    array.copyfrom(random_input(argument, np.random.default_rng(0)))


def alloc_argument_common(
    f_random_fill: Callable[[NDArray], None],
    device: Device,
    args_info: T_ARG_INFO_JSON_OBJ_LIST,
    alloc_repeat: int,
) -> list[T_ARGUMENT_LIST]:
    """Arguments for so many measurements: arrays on a device that a function fills. args_info: as TensorInfo.as_json gives it. Raises
    TVMError for other parameters than tensors."""
    infos = [ArgInfo.from_json(info) for info in args_info]
    found: list[T_ARGUMENT_LIST] = []
    for _ in range(alloc_repeat):
        found.append([])
        for info in infos:
            if not isinstance(info, TensorInfo):
                raise TVMError(f"arguments can be made for tensors only, not for {info!r}")
            array = ndarray.empty(info.shape, info.dtype, device)
            f_random_fill(array)
            found[-1].append(array)
    return found


def run_evaluator_common(
    rt_mod: Module, device: Device, evaluator_config: EvaluatorConfig, repeated_args: list[T_ARGUMENT_LIST]
) -> list[float]:
    """Seconds of a call: for each list of arguments, each repeat. What is run is the kernel of a library that LocalBuilder built, else the
    main function."""
    try:
        rt_mod.get_function(ENTRY)
        name = ENTRY
    except AttributeError:
        name = rt_mod.entry_name
    evaluator = rt_mod.time_evaluator(
        name,
        device,
        evaluator_config.number,
        evaluator_config.repeat,
        evaluator_config.min_repeat_ms,
        cache_flush_bytes=FLUSHED if evaluator_config.enable_cpu_cache_flush else 0,
    )
    return [seconds for args in repeated_args for seconds in evaluator(*args).results]
