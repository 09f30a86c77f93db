"""Where programs are built and measured: this machine, or boards."""

from __future__ import annotations

from typing import Any

from tilewright.auto_scheduler.measure_programs import ProgramBuilder, ProgramRunner
from tilewright.rpc.server import Server
from tilewright.rpc.tracker import Tracker
from tilewright.support.errors import TVMError
from tilewright.tuning import building
from tilewright.tuning.running import local, rpc
from tilewright.tuning.running.measuring import Plan

FLUSHED = 64 << 20
"""Bytes that are written to empty caches."""


class LocalBuilder(ProgramBuilder):
    """Builds in processes of this machine.

    timeout: seconds of a build. n_parallel: builds at once; by default as many as there are processors. build_func: must be "default"; a
    ProgramBuilder whose engine is a tuning.building.LocalBuilder takes any other way of building.
    """

    def __init__(self, timeout: float = 15, n_parallel: int | None = None, build_func: str = "default") -> None:
        if build_func != "default":
            raise TVMError(
                f"build_func is {build_func!r}, but must be 'default'; another way of building is the `compile` of"
                " tuning.building.LocalBuilder, of which ProgramBuilder makes a builder"
            )
        super().__init__(building.LocalBuilder(n_parallel, timeout))


def _plan(timeout: float, repeat: int, min_repeat_ms: float, flushes: bool) -> Plan:
    return Plan(
        repeats=max(repeat, 1),
        min_repeat_ms=max(min_repeat_ms, 1.0),
        seconds=timeout / 2,
        cache_flush_bytes=FLUSHED if flushes else 0,
    )


class LocalRunner(ProgramRunner):
    """Measures in a process of this machine.

    timeout: seconds of a program. number: calls of a repeat; they are as many more as take min_repeat_ms. repeat: undisturbed repeats.
    cooldown_interval: seconds between programs. enable_cpu_cache_flush: whether caches are emptied before each repeat. device: must be 0.
    """

    def __init__(
        self,
        timeout: float = 10,
        number: int = 3,
        repeat: int = 1,
        min_repeat_ms: float = 100,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
    ) -> None:
        _need_first(device)
        plan = _plan(timeout, repeat, min_repeat_ms, enable_cpu_cache_flush)
        super().__init__(local.LocalRunner(timeout, plan), cooldown_interval)


class RPCRunner(ProgramRunner):
    """Measures on boards that a tracker hands out. key, host, port: of the tracker's servers. n_parallel: boards at once. The others are
    those of LocalRunner."""

    def __init__(
        self,
        key: str,
        host: str,
        port: int,
        priority: int = 1,
        n_parallel: int | None = 1,
        timeout: float = 10,
        number: int = 3,
        repeat: int = 1,
        min_repeat_ms: float = 100,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
    ) -> None:
        _need_first(device)
        plan = _plan(timeout, repeat, min_repeat_ms, enable_cpu_cache_flush)
        engine = rpc.RPCRunner(key, (host, port), boards=n_parallel, timeout=timeout, priority=priority, plan=plan)
        super().__init__(engine, cooldown_interval)


class LocalRPCMeasureContext:
    """A tracker and a server on this machine, and a `runner` that measures there. They end with `close`, or with the context.

    The parameters are those of RPCRunner.
    """

    def __init__(
        self,
        priority: int = 1,
        n_parallel: int = 1,
        timeout: float = 10,
        number: int = 3,
        repeat: int = 1,
        min_repeat_ms: float = 100,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
    ) -> None:
        self.tracker = Tracker()
        address = ("127.0.0.1", self.tracker.port)
        self.server = Server(key="local", tracker_addr=address)
        self.runner = RPCRunner(
            "local", *address, priority, n_parallel, timeout, number, repeat, min_repeat_ms, cooldown_interval,
            enable_cpu_cache_flush, device,
        )  # fmt: skip

    def close(self) -> None:
        """Ends the server and the tracker."""
        self.runner.close()
        self.server.terminate()
        self.tracker.terminate()

    def __enter__(self) -> LocalRPCMeasureContext:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _need_first(device: int) -> None:
    if device:
        raise TVMError(f"programs are measured on device 0, but device {device} was asked for")
