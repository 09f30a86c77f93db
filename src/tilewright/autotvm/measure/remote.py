"""Boards of a tracker: sessions with them, and how libraries are loaded there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import numpy as np

from tilewright.autotvm.measure.building import BuildResult, failed
from tilewright.autotvm.measure.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tilewright.rpc import RPCSession, connect_tracker
from tilewright.runtime import Device, Module, ndarray
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tuning.inputs import random_inputs
from tilewright.tuning.measure import ENTRY, Argument, Signature

FLUSHED = 1 << 26
"""Bytes that are written to empty the caches."""

ModuleLoader = Callable[[Mapping[str, Any], BuildResult], AbstractContextManager[tuple[Any, Module]]]
"""How a runner gets a library to a board: a function of the parameters of `request_remote` and of what was built. It is entered for each
measurement, gives a session and the loaded module, and tidies up when it is left."""
PreLoad = Callable[[RPCSession, BuildResult], Any]


def request_remote(
    device_key: str, host: str | None = None, port: int | None = None, priority: int = 1, timeout: int = 60
) -> RPCSession:
    """A session with a board of a tracker; by default of that which TVM_TRACKER_HOST and TVM_TRACKER_PORT name."""
    address = host or os.environ["TVM_TRACKER_HOST"], port or int(os.environ["TVM_TRACKER_PORT"])
    return connect_tracker(*address, up_in=timeout).request(device_key, priority=priority, session_timeout=timeout)


def check_remote(
    target: Any,
    device_key: str,
    host: str | None = None,
    port: int | None = None,
    priority: int = 100,
    timeout: int = 10,
) -> bool:
    """Whether a tracker hands out a board that has the device of a target."""
    try:
        session = request_remote(device_key, host, port, priority, timeout)
    except TVMError:
        return False
    return bool(session.device(device_of(Target(target)), 0).exist)


class DefaultModuleLoader:
    """Uploads a library in a session of a tracker, loads it, and removes it afterwards.

    pre_load_function: is called with the session and what was built before the library is uploaded, such as to reset the board.
    """

    def __init__(self, pre_load_function: PreLoad | None = None) -> None:
        self.pre_load_function = pre_load_function

    @contextmanager
    def __call__(
        self, remote_kwargs: Mapping[str, Any], build_result: BuildResult
    ) -> Iterator[tuple[RPCSession, Module]]:
        remote = request_remote(**remote_kwargs)
        if self.pre_load_function is not None:
            self.pre_load_function(remote, build_result)
        name = os.path.basename(build_result.filename)
        remote.upload(build_result.filename)
        try:
            yield remote, remote.load_module(name)
        finally:
            # The board may be gone.
            with suppress(TVMError, OSError):
                remote.remove(name)


def default_module_loader(pre_load_function: PreLoad | None = None) -> DefaultModuleLoader:
    """A loader for the parameter module_loader of runners: see `DefaultModuleLoader`."""
    return DefaultModuleLoader(pre_load_function)


def run_through_rpc(
    measure_input: MeasureInput,
    build_result: BuildResult | MeasureResult,
    number: int,
    repeat: int,
    min_repeat_ms: float,
    cooldown_interval: float,
    remote_kwargs: Mapping[str, Any],
    ref_input: Sequence[np.ndarray[Any, Any]] | None,
    enable_cpu_cache_flush: bool = False,
    module_loader: ModuleLoader | None = None,
) -> MeasureResult:
    """The times of a library on the board to which a loader brings it. It never raises: a failure is a result.

    number: calls of a repeat at least. repeat: how many are measured. min_repeat_ms: milliseconds of a repeat at least. cooldown_interval:
    seconds to wait afterwards. remote_kwargs: parameters of `request_remote`. ref_input: an array for each parameter; None: random ones.
    enable_cpu_cache_flush: whether the caches of a CPU are emptied before each repeat. module_loader: `default_module_loader()` by default.
    """
    if isinstance(build_result, MeasureResult):
        return build_result
    begun, load = time.perf_counter(), module_loader if module_loader is not None else default_module_loader()
    try:
        with load(remote_kwargs, build_result) as (remote, module):
            device = remote.device(device_of(measure_input.target), 0)
            flushed = FLUSHED if enable_cpu_cache_flush and device.device_type == Device.kDLCPU else 0
            timed = module.time_evaluator(ENTRY, device, number, repeat, int(min_repeat_ms), cache_flush_bytes=flushed)
            given = random_inputs(signature_of(build_result, ref_input))
            costs = tuple([float(c) for c in timed(*[ndarray.array(a, device) for a in given]).results])
    except Exception as error:
        # A loader is a program of the user, and a board may do anything: whatever it raises is what is wrong with this measurement.
        message = f"{type(error).__name__}: {error}"
        return failed(MeasureErrorNo.RUNTIME_DEVICE, message, build_result.time_cost + time.perf_counter() - begun)
    spent = build_result.time_cost + time.perf_counter() - begun
    time.sleep(cooldown_interval)
    return MeasureResult(costs, MeasureErrorNo.NO_ERROR, spent, time.time())


def signature_of(built: BuildResult, given: Sequence[np.ndarray[Any, Any]] | None) -> Signature:
    """The parameters of a program. Raises TVMError if values were given that are not of them."""
    arguments = tuple([Argument(tuple(shape), dtype) for shape, dtype in built.arg_info])
    if given is None:
        return Signature(arguments, ())
    have = tuple([Argument(a.shape, a.dtype.name) for a in given])
    if have != arguments:
        raise TVMError(
            f"ref_input has an array for each parameter of a program, which are {_listed(arguments)}, but {_listed(have)} were given"
        )
    return Signature(arguments, (), tuple([a.tobytes() for a in given]))


def _listed(arguments: Sequence[Argument]) -> str:
    return ", ".join([f"{a.dtype}{list(a.shape)}" for a in arguments]) or "none"


def device_of(target: Target) -> str:
    """The kind of the device that runs programs of a target."""
    kind = str(target.kind)
    return "cpu" if kind in ("llvm", "c") else kind
