"""The tasks of AutoTVM in a model: the workloads of templates that strategies of its operators call."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tilewright.autotvm.env import GLOBAL_SCOPE
from tilewright.autotvm.task.dispatcher import FallbackContext
from tilewright.autotvm.task.task import Task, create
from tilewright.autotvm.task.topi_integration import TaskExtractEnv
from tilewright.ir import GlobalVar, IRModule, Op
from tilewright.node import deep_recursion
from tilewright.relay.backend.compilation import optimize
from tilewright.relay.backend.kernels.tensor_graph import placeholder_of, tensor_types
from tilewright.relay.backend.targets import config_of
from tilewright.relay.expr import Call, Function
from tilewright.relay.functor import post_order
from tilewright.relay.op.op import registered_compute
from tilewright.relay.parameters import Params
from tilewright.relay.rewriting import card_of
from tilewright.support.errors import TVMError
from tilewright.target.virtual_device import Targets
from tilewright.tir import Any as AnyDim

logger = logging.getLogger("autotvm")


def extract_from_program(
    mod: IRModule | Function, params: Params | None, target: Targets, target_host: Any = None, ops: Any = None
) -> list[Task]:
    """The tasks of a model: those of the templates that strategies of its operators call, each once.

    A strategy that a program registers (`relay.op.strategy.dense_strategy.register("cpu")`) calls templates that it made by
    `autotvm.register_topi_compute`; builds give them the configurations that contexts have. Operators without a strategy of the program
    have no tasks: the rules of the target schedule their kernels. The module is taken as a build takes it, after all passes; options of the
    current PassContext count. ops: operators or their names; None: all.
    """
    return extract_from_multiple_program([mod], [params], target, target_host, ops)


def extract_from_multiple_program(
    mods: Sequence[IRModule | Function],
    params: Sequence[Params | None],
    target: Targets,
    target_host: Any = None,
    ops: Any = None,
) -> list[Task]:
    """As extract_from_program, of several models. params: of each."""
    if len(mods) != len(params):
        raise TVMError(f"each model has its params, but {len(mods)} models and {len(params)} params were given")
    config = config_of(target, target_host)
    chosen = config.targets[0]
    wanted = None if ops is None else [Op.get(op) if isinstance(op, str) else op for op in ops]
    env = TaskExtractEnv.get()
    env.reset(wanted)
    with chosen, deep_recursion(), _unconfigured(), env:
        # A pass collects the workloads of the templates of this package.
        for mod, given in zip(mods, params, strict=True):
            _call_templates(optimize(mod, config, given)[0], wanted)
        return [task for name, args in env.get_tasks() for task in _task(name, args, chosen)]


@contextmanager
def _unconfigured() -> Iterator[None]:
    """Configurations that are made here are neither kept nor told of."""
    silent, GLOBAL_SCOPE.silent = GLOBAL_SCOPE.silent, True
    try:
        with FallbackContext():
            yield
    finally:
        GLOBAL_SCOPE.silent = silent


def _call_templates(module: IRModule, wanted: Sequence[Op] | None) -> None:
    """Computes each call of an operator that has a strategy of the program."""
    for call in _calls(module):
        op = call.op
        assert isinstance(op, Op)
        if op.get_attr("FTVMStrategy") is None or wanted is not None and op not in wanted:
            continue
        inputs = [_inputs(a.checked_type) for a in call.args]
        shapes = [d for a in call.args for t in tensor_types(a.checked_type) for d in t.shape]
        if not any([isinstance(d, AnyDim) for d in shapes]):
            registered_compute(op, card_of(call), inputs, call.checked_type)


def _calls(module: IRModule) -> Iterator[Call]:
    """The calls of operators, in the order in which the model makes them."""
    seen: set[int] = set()

    def inside(func: Any) -> Iterator[Call]:
        if not isinstance(func, Function) or id(func) in seen:
            return
        seen.add(id(func))
        for node in post_order(func.body, lambda e: isinstance(e, Function)):
            if isinstance(node, Call) and type(node.op) is Op:
                yield node
            elif isinstance(node, Call):
                yield from inside(module.functions.get(node.op) if isinstance(node.op, GlobalVar) else node.op)
        for node in post_order(func.body):
            yield from inside(node)

    yield from inside(module["main"])
    for func in module.functions.values():
        yield from inside(func)


def _inputs(given: Any) -> Any:
    tensors = [placeholder_of(t, "data") for t in tensor_types(given)]
    return tensors if hasattr(given, "fields") else tensors[0]


def _task(name: str, args: Sequence[Any], target: Any) -> list[Task]:
    try:
        return [create(name, args, target)]
    except (RuntimeError, TVMError) as error:
        logger.warning("%s%s is left out: it is no task for AutoTVM: %s", name, tuple(args), error)
        return []
