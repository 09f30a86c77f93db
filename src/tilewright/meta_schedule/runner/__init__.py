"""From libraries to times."""

from __future__ import annotations

from tilewright.meta_schedule.runner.config import EvaluatorConfig, RPCConfig
from tilewright.meta_schedule.runner.local_runner import LocalRunner, LocalRunnerFuture
from tilewright.meta_schedule.runner.rpc_runner import RPCRunner
from tilewright.meta_schedule.runner.runner import (
    PyRunner,
    PyRunnerFuture,
    Rivals,
    Runner,
    RunnerFuture,
    RunnerInput,
    RunnerResult,
    create,
)
from tilewright.support import lazy

__all__ = [
    "EvaluatorConfig",
    "LocalRunner",
    "LocalRunnerFuture",
    "PyRunner",
    "PyRunnerFuture",
    "Rivals",
    "RPCConfig",
    "RPCRunner",
    "Runner",
    "RunnerFuture",
    "RunnerInput",
    "RunnerResult",
    "create",
]

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
