"""TensorIR programs as modules of PyTorch: `as_torch` decorates a script; the module is called with tensors, and writes into them."""

from __future__ import annotations

import functools
import tempfile
from typing import Any

import torch

from tilewright import meta_schedule
from tilewright.contrib.torch.tensors import as_argument
from tilewright.driver import build
from tilewright.ir import IRModule
from tilewright.target import Target
from tilewright.tir.function import PrimFunc


class OperatorModuleWrapper(torch.nn.Module):  # type: ignore[misc]
    """A TensorIR program that is called with its arguments, tensors of PyTorch. It is built by the first call, for this machine, unless
    `build` or `tune` did so before."""

    def __init__(self, module: IRModule | PrimFunc) -> None:
        super().__init__()
        self.ir_module = module
        self.rt_module: Any = None

    def tune(
        self,
        target: str | Target = "cpu",
        max_trials_global: int = 32,
        *,
        num_trials_per_iter: int = 32,
        builder: Any = "local",
        runner: Any = "local",
        database: Any = "json",
        cost_model: Any = "xgb",
        measure_callbacks: Any = "default",
        task_scheduler: Any = "round-robin",
        space: Any = "post-order-apply",
        strategy: Any = "replay-trace",
        num_tuning_cores: Any = "physical",
        seed: int | None = None,
    ) -> None:
        """Searches schedules by measurement (`meta_schedule.tune_tir`), and builds with the best one."""
        wanted = self._target(target)
        with tempfile.TemporaryDirectory() as folder:
            found = meta_schedule.tir_integration.tune_tir(
                mod=self.ir_module, target=wanted, work_dir=folder, max_trials_global=max_trials_global,
                num_trials_per_iter=num_trials_per_iter, builder=builder, runner=runner, database=database, cost_model=cost_model,
                measure_callbacks=measure_callbacks, task_scheduler=task_scheduler, space=space, strategy=strategy,
                num_tuning_cores=num_tuning_cores, seed=seed,
            )  # fmt: skip
            schedule = meta_schedule.tir_integration.compile_tir(found, self.ir_module, wanted)
        if schedule is not None:
            self.ir_module = schedule.mod
        self.build(wanted)

    def script(self) -> str:
        """The program as text."""
        return self.ir_module.script()

    def build(self, target: str | Target | None = None) -> None:
        """Compiles the program for a target; for this machine's processor if None."""
        self.rt_module = build(self.ir_module, target=self._target(target or "cpu"))

    @staticmethod
    def _target(target: str | Target) -> Target:
        """A target; "cpu" is this machine's processor with all of its cores."""
        if isinstance(target, Target):
            return target
        return Target(f"llvm --num-cores={torch.get_num_threads()}") if target in ("cpu", "llvm") else Target(target)

    def forward(self, *torch_inputs: Any) -> Any:
        """Calls the program with its arguments, among them those that it writes into."""
        if self.rt_module is None:
            self.build()
        return self.rt_module(*[as_argument(value) for value in torch_inputs])


def as_torch(func: Any) -> Any:
    """A module of PyTorch that runs a TensorIR program (a PrimFunc or IRModule). A function that returns a program becomes one that
    returns such a module. Raises ValueError for anything else."""
    if isinstance(func, (IRModule, PrimFunc)):
        return OperatorModuleWrapper(func)
    if callable(func):

        @functools.wraps(func)
        def made(*args: Any, **kwargs: Any) -> OperatorModuleWrapper:
            return OperatorModuleWrapper(func(*args, **kwargs))

        return made
    raise ValueError(
        f"as_torch takes an IRModule, a PrimFunc, or a function that makes one, but was given {type(func).__name__}"
    )
