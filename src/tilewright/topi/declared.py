"""Computes and schedules that tables declare, as the packages of targets have them in families: a name, its parameters, and what it
does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright import te
from tilewright.autotvm.task.dispatcher import DispatchContext
from tilewright.autotvm.task.task import register_task_schedule
from tilewright.autotvm.task.topi_integration import get_workload, register_topi_compute
from tilewright.target import Target
from tilewright.topi.signatures import Function, named, signature


def template_compute(name: str, task: str, parameters: str, form: Function, cfg_name: str = "cfg") -> Function:
    """A compute of a template of AutoTVM, whose configuration only its schedule reads. Called, it takes no cfg."""

    def body(cfg: Any, *args: Any) -> Any:
        del cfg
        return form(*args)

    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"The compute of the template {task}: {(form.__doc__ or '').strip()}"
    body.__signature__ = signature(f"{cfg_name} {parameters}")  # type: ignore[attr-defined]
    made: Function = register_topi_compute(task)(body)
    return made


def template_schedule(name: str, task: str, schedule: Function, parameters: str = "cfg outs") -> Function:
    """The schedule of a template. `schedule(outs, cfg)` reads knobs of the configuration; without a workload of the template among what the
    outputs need, cfg is None."""

    def called(outs: Any, *args: Any, **kwargs: Any) -> te.Schedule:
        workload = get_workload(outs, task)
        cfg = None if workload is None else DispatchContext.current.query(Target.current(), workload)
        made: te.Schedule = schedule(outs, cfg)
        return made

    called.__name__ = called.__qualname__ = name
    called.__doc__ = f"The schedule of the template {task}, and of what follows its compute."
    called.__signature__ = signature(parameters)  # type: ignore[attr-defined]
    register_task_schedule(task, called)
    return called


def plain_schedules(names: str, schedule: Function, parameters: str = "outs") -> Mapping[str, Function]:
    """Schedules `schedule_<name>(outs)` of several operators."""
    return {
        f"schedule_{name}": named(
            lambda outs, *_: schedule(outs),
            f"schedule_{name}",
            parameters,
            f"A schedule of outputs that {name} computed.",
        )
        for name in names.split()
    }
