"""Templates of operators: a compute and a schedule, which get the configuration of their workload as first argument."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Self, overload

from tilewright import te
from tilewright.autotvm.task.dispatcher import DispatchContext
from tilewright.autotvm.task.task import register_task_compute, register_task_schedule
from tilewright.autotvm.task.workload import args_to_workload, serialize_args
from tilewright.target import Target

Function = Callable[..., Any]

WORKLOAD = "workload"
"""The attribute of an operation that holds its workload."""


class TaskExtractEnv:
    """Collects the workloads of templates that are called in `with env:`, such as by a build.

    current: the one of this process that `get` made. allow_duplicate: whether a workload is collected each time.
    """

    current: TaskExtractEnv | None = None

    def __init__(self, allow_duplicate: bool = False) -> None:
        self.allow_duplicate = allow_duplicate
        self.tracing = False
        self.task_collection: list[tuple[str, tuple[Any, ...]]] = []
        self.wanted_relay_ops: list[Any] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self.task_collection = []
        self.tracing = True
        return self

    def __exit__(self, *_: object) -> None:
        self.tracing = False

    def reset(self, wanted_relay_ops: Sequence[Any] | None = None) -> None:
        """Forgets what was collected. wanted_relay_ops: the operators whose tasks are wanted; None: all."""
        self.task_collection = []
        self.wanted_relay_ops = None if wanted_relay_ops is None else list(wanted_relay_ops)

    def add_task(self, task_name: str, args: Sequence[Any]) -> None:
        """Collects a workload."""
        key = (task_name, serialize_args(args))
        with self._lock:
            if self.allow_duplicate or key not in self.task_collection:
                self.task_collection.append(key)

    def get_tasks(self) -> list[tuple[str, tuple[Any, ...]]]:
        """The names and arguments that were collected."""
        return self.task_collection

    @staticmethod
    def get(allow_duplicate: bool = False) -> TaskExtractEnv:
        """The one of this process."""
        if TaskExtractEnv.current is None:
            TaskExtractEnv.current = TaskExtractEnv()
        TaskExtractEnv.current.allow_duplicate = allow_duplicate
        return TaskExtractEnv.current


@overload
def register_topi_compute(task_name: str, func: None = None) -> Callable[[Function], Function]: ...


@overload
def register_topi_compute(task_name: str, func: Function) -> Function: ...


def register_topi_compute(task_name: str, func: Function | None = None) -> Any:
    """Makes `f(cfg, tensors and attributes...)`, which returns te tensors, the compute of a template. The result is called without cfg: it
    gets the configuration of its workload from the current context, and its operation says its workload."""
    if func is None:
        return lambda given: register_topi_compute(task_name, given)
    body = func

    @functools.wraps(body)
    def called(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise TypeError(
                f"the template {task_name!r} takes its arguments by place, but {', '.join(kwargs)} was named"
            )
        env = TaskExtractEnv.current
        if env is not None and env.tracing:
            env.add_task(task_name, args)
        workload = args_to_workload(args, task_name)
        made = body(DispatchContext.current.query(Target.current(), workload), *args)
        return _with_workload(made, workload)

    register_task_compute(task_name, called)
    return called


def _with_workload(made: Any, workload: tuple[Any, ...]) -> Any:
    """The results, of an operation that says its workload."""
    several = isinstance(made, (list, tuple))
    op = (made[0] if several else made).op
    named = op.replace(attrs={**op.attrs, WORKLOAD: workload})
    return [named.output(t.value_index) for t in made] if several else named.output(made.value_index)


@overload
def register_topi_schedule(task_name: str, func: None = None) -> Callable[[Function], Function]: ...


@overload
def register_topi_schedule(task_name: str, func: Function) -> Function: ...


def register_topi_schedule(task_name: str, func: Function | None = None) -> Any:
    """Makes `f(cfg, outs)`, which returns a te schedule, the schedule of a template. The result is called without cfg: it gets the
    configuration of the workload that is computed among what the outputs need. Raises RuntimeError if there is none."""
    if func is None:
        return lambda given: register_topi_schedule(task_name, given)
    body = func

    @functools.wraps(body)
    def called(outs: Any, *args: Any, **kwargs: Any) -> Any:
        workload = get_workload(outs, task_name)
        if workload is None:
            raise RuntimeError(
                f"nothing that is scheduled is a workload of {task_name!r}: its compute is registered by register_topi_compute, under"
                " the same name"
            )
        return body(DispatchContext.current.query(Target.current(), workload), outs, *args, **kwargs)

    register_task_schedule(task_name, called)
    return called


def get_workload(outs: Any, task_name: str | None = None) -> tuple[Any, ...] | None:
    """The workload of the operation that outputs are computed by, or of one that they need; None if there is none.

    task_name: the template it must be of.
    """
    waiting = [t.op for t in (outs if isinstance(outs, (list, tuple)) else [outs])]
    seen: set[te.Operation] = set()
    while waiting:
        op = waiting.pop()
        if op in seen:
            continue
        seen.add(op)
        workload = op.attrs.get(WORKLOAD)
        if workload is not None:
            found = serialize_args(workload)
            if task_name is None or found[0] == task_name:
                return found
        waiting += [t.op for t in op.input_tensors]
    return None
