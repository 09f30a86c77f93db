"""Functions and modules of PyTorch, compiled: `optimize_torch` traces one, searches schedules on request, and returns a module."""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tilewright import relay
from tilewright.contrib import tar
from tilewright.contrib.graph_executor import GraphModule
from tilewright.contrib.torch.tensors import as_argument, as_tensor
from tilewright.runtime import device
from tilewright.target import Target


def save_to_base64(obj: Any) -> bytes:
    """A built model as text in base64: its library, packed by `tar`."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.tar")
        obj.export_library(path, fcompile=tar.tar)
        with open(path, "rb") as file:
            return base64.b64encode(file.read())


class GraphExecutorFactoryWrapper(torch.nn.Module):  # type: ignore[misc]
    """A built model that is called with tensors. Returns a tensor, or a tuple of them if the model has several outputs. The results are
    copies, so that later calls do not change them."""

    def __init__(self, module: Any, dev: Any = None) -> None:
        super().__init__()
        self.inner_module = module
        self._executor = GraphModule(module["default"](dev or device("cpu", 0)))

    def forward(self, *torch_inputs: Any) -> Any:
        """Runs the model."""
        for k, value in enumerate(torch_inputs):
            self._executor.set_input(k, as_argument(value))
        self._executor.run()
        found = tuple(
            [as_tensor(self._executor.get_output(k)).clone() for k in range(self._executor.get_num_outputs())]
        )
        return found[0] if len(found) == 1 else found


def optimize_torch(
    func: Callable[..., Any],
    example_inputs: Sequence[Any] | torch.Tensor,
    max_trials_global: int = 0,
    *,
    work_dir: str | None = None,
    target: str | Target = "cpu",
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int = 64,
    builder: Any = "local",
    runner: Any = "local",
    database: Any = "json",
    cost_model: Any = "xgb",
    measure_callbacks: Any = "default",
    task_scheduler: Any = "gradient",
    space: Any = "post-order-apply",
    strategy: Any = "evolutionary",
    seed: int | None = None,
) -> GraphExecutorFactoryWrapper:
    """A module that computes what a function or module of PyTorch computes of inputs of these shapes.

    max_trials_global: candidates that are measured; none by default, as the compiler's own schedules are fast. work_dir: where records are
    kept; a temporary folder if None. target: "cpu" is this machine's processor.
    """
    inputs = (example_inputs,) if isinstance(example_inputs, torch.Tensor) else tuple(example_inputs)
    traced = func if isinstance(func, torch.jit.ScriptModule) else torch.jit.trace(func, inputs)
    infos = [(f"input_{k}", (tuple(i.shape), str(i.dtype).rpartition(".")[2])) for k, i in enumerate(inputs)]
    mod, params = relay.frontend.from_pytorch(
        traced, infos, default_dtype=str(torch.get_default_dtype()).rpartition(".")[2]
    )
    wanted = target if isinstance(target, Target) else Target("llvm" if target == "cpu" else target)
    if max_trials_global:
        with tempfile.TemporaryDirectory() as folder:
            found = relay.backend.meta_schedule_tasks.tune_relay(
                mod, params, wanted, work_dir or folder, max_trials_global, max_trials_per_task=max_trials_per_task,
                num_trials_per_iter=num_trials_per_iter, builder=builder, runner=runner, database=database, cost_model=cost_model,
                measure_callbacks=measure_callbacks, task_scheduler=task_scheduler, space=space, strategy=strategy, seed=seed,
            )  # fmt: skip
            built = relay.backend.meta_schedule_tasks.compile_relay(found, mod, wanted, params)
    else:
        built = relay.build(mod, target=wanted, params=params)
    kind = wanted.kind.name
    return GraphExecutorFactoryWrapper(built, device("cpu" if kind in ("llvm", "c") else kind, 0))


__all__ = ["GraphExecutorFactoryWrapper", "optimize_torch", "save_to_base64"]
