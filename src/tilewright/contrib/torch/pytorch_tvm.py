"""Models of PyTorch as exported graphs: `compile(script_module, option)` tunes, builds and exports one, and gives a GraphModule of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright import autotvm, relay
from tilewright.contrib import graph_executor
from tilewright.contrib.debugger import debug_executor
from tilewright.contrib.torch.module import GraphModule
from tilewright.ir.transform import PassContext
from tilewright.runtime import Device, cuda, load_module

TVM_ASSETS = ["mod.so", "graph.json", "params"]


def tune_tasks(
    tasks: Sequence[Any],
    measure_option: Any,
    tuner: str = "xgb",
    n_trial: int = 1000,
    early_stopping: int | None = None,
    log_filename: str = "tuning.log",
    use_transfer_learning: bool = True,
) -> None:
    """Tunes tasks, the last first, and writes the best records to a file.

    tuner: "xgb" (or "xgb_" with "rank" or "rank_binary" for its loss, and a kind of features: "knob", "itervar" or "curve"), "ga", "random"
    or "gridsearch". use_transfer_learning: a task's tuner starts with the records of those before.
    """
    every = f"{log_filename}.tmp"
    if os.path.exists(every):
        os.remove(every)
    for k, task in enumerate(reversed(tasks)):
        search = _tuner(tuner, task)
        if use_transfer_learning and os.path.isfile(every):
            search.load_history(autotvm.record.load_from_file(every))
        count = min(n_trial, len(task.config_space))
        search.tune(
            n_trial=count,
            early_stopping=early_stopping,
            measure_option=measure_option,
            callbacks=[
                autotvm.callback.progress_bar(count, prefix=f"[Task {k + 1:2d}/{len(tasks):2d}] "),
                autotvm.callback.log_to_file(every),
            ],
        )
    with open(log_filename, "a", encoding="utf-8"):
        pass
    if os.path.exists(every):
        autotvm.record.pick_best(every, log_filename)
        os.remove(every)


def _tuner(name: str, task: Any) -> Any:
    plain = {
        "random": autotvm.tuner.RandomTuner,
        "gridsearch": autotvm.tuner.GridSearchTuner,
        "ga": autotvm.tuner.GATuner,
    }
    if name in plain:
        return plain[name](task)
    words = name.replace("rank_binary", "rank-binary").split("_")
    loss = next((w for w in words if w in ("rank", "rank-binary")), "reg")
    features = next((w for w in words if w in ("knob", "itervar", "curve")), "itervar")
    if words[0] != "xgb" or set(words) - {"xgb", loss, features}:
        raise ValueError(f"Invalid tuner: {name}")
    return autotvm.tuner.XGBTuner(task, feature_type=features, loss_type=loss)


def get_tuning_opt(log_file: str = "tuning.log", n_trial: int = 200) -> dict[str, Any]:
    """Arguments of `tune_tasks` that measure on this machine."""
    measure = autotvm.measure_option(
        builder=autotvm.LocalBuilder(timeout=10),
        runner=autotvm.LocalRunner(number=20, repeat=3, timeout=4, min_repeat_ms=150),
    )
    return {
        "log_filename": log_file,
        "tuner": "random",
        "n_trial": n_trial,
        "early_stopping": 60,
        "measure_option": measure,
    }


class PyTorchTVMModule:
    """A model on its way from PyTorch to an exported graph: from_pytorch, tune_tvm (or not), build_tvm, build_pytorch_module."""

    def __init__(self, target: Any = "cuda", device: Device | None = None) -> None:
        self.target, self.dev = target, device if device is not None else cuda(0)
        self.script_module: Any = None
        self.input_infos: Sequence[Any] | None = None
        self.default_dtype = "float32"
        self.mod: Any = None
        self.params: Any = None
        self.tasks: Any = None
        self.log_file: str | None = None
        self.tvm_module: Any = None
        self.tvm_graph: Any = None
        self.tvm_lib: Any = None
        self.tvm_params: Any = None
        self.export_dir: str | None = None

    def from_pytorch(self, script_module: Any, input_infos: Sequence[Any], default_dtype: str = "float32") -> None:
        """Takes a module of TorchScript; input_infos are the names and shapes of its inputs."""
        self.script_module, self.input_infos, self.default_dtype = script_module, input_infos, default_dtype
        self.mod, self.params = relay.frontend.from_pytorch(script_module, input_infos, default_dtype=default_dtype)

    def tune_tvm(self, log_file: str = "tuning.log", n_trial: int = 200) -> None:
        """Searches templates' choices for the model's operators. The best go to the file, which build_tvm reads."""
        self.tasks = autotvm.task.extract_from_program(self.mod["main"], target=self.target, params=self.params)
        self.log_file = log_file
        tune_tasks(self.tasks, **get_tuning_opt(log_file, n_trial))

    def build_tvm(self, export_dir: str, debug_runtime: bool = False) -> Any:
        """Builds the model and writes it into a folder. Returns its executor, or one that measures operators (debug_runtime)."""
        tuned = self.log_file is not None and os.path.isfile(self.log_file)
        with autotvm.apply_history_best(self.log_file if tuned else None), PassContext(opt_level=3):
            self.tvm_graph, self.tvm_lib, self.tvm_params = relay.build(
                self.mod, target=self.target, params=self.params
            )
        executors = debug_executor if debug_runtime else graph_executor
        self.tvm_module = executors.create(self.tvm_graph, self.tvm_lib, self.dev)
        self.tvm_module.set_input(**self.tvm_params)
        library, graph, params = self._folder(export_dir)
        self.tvm_lib.export_library(library)
        with open(graph, "w", encoding="utf-8") as text, open(params, "wb") as data:
            text.write(self.tvm_graph)
            data.write(relay.save_param_dict(self.tvm_params))
        return self.tvm_module

    def _folder(self, export_dir: str) -> list[str]:
        os.makedirs(export_dir, exist_ok=True)
        self.export_dir = export_dir
        return [os.path.join(export_dir, name) for name in TVM_ASSETS]

    def load_tvm(self, export_dir: str) -> Any:
        """Reads what build_tvm wrote. Returns its executor."""
        library, graph, params = self._folder(export_dir)
        self.tvm_lib = load_module(library)
        with open(graph, encoding="utf-8") as text, open(params, "rb") as data:
            self.tvm_graph, self.tvm_params = text.read(), relay.load_param_dict(data.read())
        self.tvm_module = graph_executor.create(self.tvm_graph, self.tvm_lib, self.dev)
        self.tvm_module.set_input(**self.tvm_params)
        return self.tvm_module

    def build_pytorch_module(self, num_inputs: int, num_outputs: int, input_infos: Any = None) -> GraphModule:
        """A module of PyTorch that runs what was built or loaded."""
        infos = input_infos or self.input_infos
        if self.export_dir is None or not infos:
            raise ValueError("there is no model yet: call from_pytorch and build_tvm, or load_tvm and give input_infos")
        if len(infos) != num_inputs:
            raise ValueError(f"the model has {len(infos)} inputs, not {num_inputs}")
        kind = Device.DEVICE_TYPE_TO_NAME[self.dev.device_type]
        if kind not in ("cpu", "cuda"):
            raise ValueError(f"models run in PyTorch on cpu and cuda, but this one was built for {kind}")
        made = GraphModule(num_inputs, num_outputs, f"cuda:{self.dev.device_id}" if kind == "cuda" else kind)
        made.init([info[1] for info in infos], *self._folder(self.export_dir))
        return made


def compile(script_module: Any, option: Mapping[str, Any]) -> GraphModule:
    """Tunes, builds and exports a module of TorchScript.

    option: "input_infos" (names and shapes), and where they differ from these: "default_dtype" ("float32"), "export_dir"
    ("pytorch_compiled"), "num_outputs" (1), "tuning_n_trials" (20; none if 0), "tuning_log_file" ("tuning.log"), "target" ("cuda"),
    "device" (cuda(0)).
    """
    infos, log = option["input_infos"], option.get("tuning_log_file", "tuning.log")
    made = PyTorchTVMModule(option.get("target", "cuda"), option.get("device"))
    made.log_file = log
    made.from_pytorch(script_module, infos, option.get("default_dtype", "float32"))
    trials = option.get("tuning_n_trials", 20)
    if trials > 0:
        made.tune_tvm(log, trials)
    made.build_tvm(option.get("export_dir", "pytorch_compiled"))
    return made.build_pytorch_module(len(infos), option.get("num_outputs", 1))


__all__ = ["TVM_ASSETS", "PyTorchTVMModule", "compile", "get_tuning_opt", "tune_tasks"]
