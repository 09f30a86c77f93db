"""Templates, and tasks: a template with arguments, its target and the space of its configurations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, overload

from tilewright import te
from tilewright.autotvm.task.dispatcher import ApplyConfig, DispatchContext
from tilewright.autotvm.task.flop import FlopCalculationError, compute_flop
from tilewright.autotvm.task.space.config import ConfigSpace
from tilewright.autotvm.task.workload import args_to_workload, deserialize_args, serialize_args
from tilewright.target import Target

Function = Callable[..., Any]


class TaskTemplate:
    """How a program is made from arguments: by one function that returns a schedule and its parameters (`fcustomized`), or by a compute
    and a schedule of its own."""

    def __init__(self) -> None:
        self.fcompute: Function | None = None
        self.fschedule: Function | None = None
        self.fcustomized: Function | None = None

    def __call__(self, *args: Any) -> tuple[te.Schedule, list[Any]]:
        given = deserialize_args(args)
        if self.fcustomized is not None:
            made: tuple[te.Schedule, list[Any]] = self.fcustomized(*given)
            return made
        if self.fcompute is None:
            raise RuntimeError("a template has a schedule but no compute: register it by register_topi_compute")
        results = self.fcompute(*given)
        outs = list(results) if isinstance(results, (list, tuple)) else [results]
        schedule = self.fschedule(outs) if self.fschedule else te.create_schedule([t.op for t in outs])
        return schedule, [*_placeholders(given, outs), *outs]


def _placeholders(given: Sequence[Any], outs: Sequence[te.Tensor]) -> list[te.Tensor]:
    """The tensors that outputs are computed from: first those of the arguments."""
    flat = [t for a in given for t in (a if isinstance(a, tuple) else (a,)) if isinstance(t, te.Tensor)]
    read: dict[te.Tensor, None] = {}
    seen: set[Any] = set()
    waiting = [t.op for t in outs]
    while waiting:
        op = waiting.pop(0)
        if op in seen:
            continue
        seen.add(op)
        read.update({t: None for t in op.input_tensors if isinstance(t.op, te.PlaceholderOp)})
        waiting += [t.op for t in op.input_tensors]
    return [t for t in flat if t in read] + [t for t in read if t not in flat]


TASK_TABLE: dict[str, TaskTemplate] = {}
"""Templates by name."""
ROOMS = (".x86", ".arm_cpu", ".cuda", ".gpu")
"""The ends of names of templates of this package, which are those of folders of topi."""
PLANNED = ("_dsp.arm_cpu", ".generic")
"""The ends of names of templates whose knobs are the decisions of kernels' plans."""


def template_named(name: str) -> TaskTemplate | None:
    """The template of a name; None if this process has none. Those of this package register themselves when they are first asked for."""
    if name not in TASK_TABLE and name.endswith(ROOMS):
        import_module(f"tilewright.topi{name[name.rindex('.') :]}")
    if name not in TASK_TABLE and name.endswith(PLANNED):
        import_module("tilewright.scheduling.cpu.planned_templates")
    return TASK_TABLE.get(name)


class MissingTask:
    """In place of a template that this process does not know: a record of a log is read without it."""

    def __init__(self, taskname: str) -> None:
        self.taskname = taskname

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"there is no template {self.taskname!r} in this process: import the module that registers it"
            " (@autotvm.template, @autotvm.register_topi_compute)"
        )


class Task:
    """A template with arguments.

    name: the template's. args: as logs hold them. config_space, target, target_host: of a task that `create` made. flop: operations of a
    call. func: the template.
    """

    def __init__(self, name: str, args: Sequence[Any]) -> None:
        self.name = name
        self.args = tuple(args)
        self.kwargs: Mapping[str, Any] = {}
        self.config_space: ConfigSpace | None = None
        self.func: Function = template_named(name) or MissingTask(name)
        self.flop: float | None = None
        self.target: Target | None = None
        self.target_host: Target | None = None

    @property
    def workload(self) -> tuple[Any, ...]:
        """What records name the task by."""
        return args_to_workload(self.args, self.name)

    def instantiate(self, config: ConfigSpace) -> tuple[te.Schedule, list[Any]]:
        """The schedule of a configuration, and the parameters of its program."""
        config.flop = 0
        with ApplyConfig(config):
            schedule, arguments = self.func(*self.args)
        if not self.flop:
            self.flop = config.flop or compute_flop(schedule)
        config.flop = config.flop or self.flop
        return schedule, arguments

    def __getstate__(self) -> dict[str, Any]:
        # Templates are functions of a program, which another process finds by name.
        return {**self.__dict__, "func": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.func = template_named(self.name) or MissingTask(self.name)

    def __repr__(self) -> str:
        return f"Task(func_name={self.name}, args={self.args}, kwargs={self.kwargs}, workload={self.workload})"


def register_task_compute(name: str, func: Function | None = None) -> Function:
    """Registers the compute of a template. Raises ValueError where there is one of the name."""
    return _register(name, "fcompute", func)


def register_task_schedule(name: str, func: Function | None = None) -> Function:
    """Registers the schedule of a template, a function of the outputs. Raises ValueError where there is one of the name."""
    return _register(name, "fschedule", func)


def register_customized_task(name: str, func: Function | None = None) -> Function:
    """Registers a function that returns a schedule and the parameters of its program as a template. Raises ValueError where there is one of
    the name."""
    return _register(name, "fcustomized", func)


def _register(name: str, part: str, func: Function | None) -> Function:
    if func is None:
        return lambda given: _register(name, part, given)
    found = TASK_TABLE.setdefault(name, TaskTemplate())
    known = getattr(found, part)
    if known is not None and not _is_same(known, func):
        raise ValueError(f"there is a template {name!r} already: give this one another name")
    setattr(found, part, func)
    return func


def _is_same(known: Function, func: Function) -> bool:
    """Whether a function replaces an earlier version of itself, as when a notebook's cell is run again."""
    names = [(f.__module__, f.__qualname__) for f in (known, func) if hasattr(f, "__qualname__")]
    return len(names) == 2 and names[0] == names[1]


@overload
def template(task_name: str, func: None = None) -> Callable[[Function], Function]: ...


@overload
def template(task_name: str, func: Function) -> Function: ...


def template(task_name: str, func: Function | None = None) -> Any:
    """Makes a function a template: it defines knobs of `get_config()`, and returns a schedule with the parameters of its program.

    A call of it returns these for the configuration that the current context has for its arguments. It takes no keywords.
    """
    if func is None:
        return lambda given: template(task_name, given)
    body = func
    register_customized_task(task_name, body)

    @functools.wraps(body)
    def called(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise TypeError(
                f"the template {task_name!r} takes its arguments by place, but {', '.join(kwargs)} was named"
            )
        workload = args_to_workload(args, task_name)
        with ApplyConfig(DispatchContext.current.query(Target.current(), workload)):
            return body(*args)

    return called


def create(task_name: str, args: Sequence[Any], target: Any, target_host: Any = None) -> Task:
    """The task of a template: its knobs are collected by a call of it.

    args: of the template; tensors are placeholders or as logs hold them. target: a Target or its text.
    """
    chosen = Target(target, target_host) if target_host is not None else Target(target)
    task = Task(task_name, serialize_args(args))
    space = ConfigSpace()
    with ApplyConfig(space), chosen:
        schedule, _ = task.func(*task.args)
    space.code_hash = getattr(schedule, "code_hash", None)
    task.config_space, task.target, task.target_host = space, chosen, chosen.host
    task.flop = space.flop or compute_flop(schedule)
    return task


def get_config() -> ConfigSpace:
    """In a template: its configuration; the space, while its knobs are collected."""
    return DispatchContext.current.query(Target.current(), None)


__all__ = [
    "TASK_TABLE", "FlopCalculationError", "MissingTask", "Task", "TaskTemplate", "args_to_workload", "compute_flop", "create",
    "deserialize_args", "get_config", "register_customized_task", "register_task_compute", "register_task_schedule",
    "serialize_args", "template",
]  # fmt: skip
