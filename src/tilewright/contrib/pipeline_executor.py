"""Runs several compiled modules as a pipeline: each in a thread of its own, several inputs on their way at a time.

config = pipeline_executor_build.PipelineConfig()
config["input"]["data"].connect(config[mod_a]["input"]["x"])
config[mod_a]["output"][0].connect(config[mod_b]["input"]["y"])
config[mod_b]["output"][0].connect(config["output"]["0"])
pipeline = PipelineModule(pipeline_executor_build.build(config))
for x in batches:
    pipeline.set_input("data", x)
    pipeline.run()                       # does not wait
results = [pipeline.get_output() for _ in batches]
"""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright import runtime
from tilewright.runtime import Device, Module, NDArray
from tilewright.runtime.ndarray import numeric_array
from tilewright.support.errors import said


def pipeline_executor_enabled() -> bool:
    """Whether pipelines can run: always."""
    return True


class PipelineModule:
    """A pipeline of modules, made from the result of pipeline_executor_build.build or of `load_library`."""

    def __init__(self, module: Any) -> None:
        executors, config = module.executors(), module.native_config()
        self._config: dict[str, Any] = config
        make: Any = runtime.get_global_func("tvm.pipeline_executor.create")
        self.module: Module = make(json.dumps(config), *executors)
        self._set_input = self.module["set_input"]
        self._run = self.module["run"]
        self._get_output = self.module["get_output"]
        # Threads end before the interpreter does.
        self._finalizer = weakref.finalize(self, self.module["stop"])

    def set_input(self, key: str, value: Any) -> None:
        """Sets an input for the runs to come, converting what is no NDArray; those on their way keep what they were given."""
        if not isinstance(value, NDArray):
            value = runtime.array(numeric_array(value, self.module["get_input_dtype"](key)))
        self._set_input(key, value)

    def set_params(self, params_group_name: str, params_data: Mapping[str, Any]) -> None:
        """Sets parameters of the module that a group of the pipeline's configuration is connected to."""
        stage = self._stage_of_group(params_group_name)
        for name, value in params_data.items():
            self.module["set_param"](stage, name, value if isinstance(value, NDArray) else runtime.array(value))

    def _stage_of_group(self, name: str) -> int:
        groups: dict[str, int] = self._config["params"]
        if name not in groups:
            known = ", ".join([repr(g) for g in groups]) or "none"
            raise ValueError(f"the pipeline has no parameter group {name!r}; its groups are: {known}")
        return groups[name]

    def run(self) -> None:
        """Starts a run on the inputs that are set. Waits only where too many runs are on their way."""
        self._run()

    def get_output(self, synchronize: bool = True, sleep_interval: float = 0.001) -> list[NDArray]:
        """The outputs of the oldest run whose outputs were not asked for yet; raises what a stage raised in it. Without `synchronize`, an
        empty list where that run is not finished; always so where there is no such run. sleep_interval: has no effect, as the runtime
        wakes what waits."""
        found: list[NDArray] = self._get_output(synchronize)
        return list(found)

    def get_input(self, key: str) -> NDArray:
        """A copy of the input that the next run takes."""
        found: NDArray = self.module["get_input"](key)
        return found

    def get_input_pipeline_map(self, name: str) -> list[str]:
        """Where an input of the pipeline goes: the number of the module and the name of its input."""
        index = self._input_index(name)
        for i, stage in enumerate(self._config["stages"]):
            for source in stage["inputs"]:
                if source["from"] < 0 and source["index"] == index:
                    return [str(i), source["name"]]
        raise ValueError(f"the pipeline's input {name!r} is connected to no module")

    def _input_index(self, name: str) -> int:
        names: list[str] = self._config["inputs"]
        if name not in names:
            raise ValueError(f"the pipeline has no input {name!r}; its inputs are: {', '.join(names) or 'none'}")
        return names.index(name)

    def get_params_group_pipeline_map(self, name: str) -> str:
        """The number of the module that a parameter group goes to."""
        return str(self._stage_of_group(name))

    @property
    def num_executing_pipeline(self) -> int:
        """How many runs were started."""
        count: int = self.module["get_num_started"]()
        return count

    @property
    def num_outputs(self) -> int:
        """How many outputs the pipeline has."""
        count: int = self.module["get_num_outputs"]()
        return count

    @property
    def num_inputs(self) -> int:
        """How many inputs the pipeline has."""
        count: int = self.module["get_num_inputs"]()
        return count

    def stop(self) -> None:
        """Ends the threads; what is on its way is given up."""
        self._finalizer()

    @staticmethod
    def load_library(config_file_name: str | os.PathLike[str]) -> PipelineModule:
        """Loads a pipeline that PipelineExecutorFactoryModule.export_library wrote."""
        return PipelineModule(LoadedPipeline(config_file_name))


class LoadedPipeline:
    """A pipeline from files: its configuration, and a library for each stage."""

    def __init__(self, config_file_name: str | os.PathLike[str]) -> None:
        path = Path(config_file_name)
        try:
            self._config: dict[str, Any] = json.loads(path.read_text())
            self._libraries = self._config["load_config"]
            self._pipeline: dict[str, Any] = self._config["pipeline_config"]
        except OSError as error:
            raise ValueError(f"the pipeline's configuration {path} cannot be read: {error.strerror}") from error
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"{path} is no configuration of a pipeline: {said(error)}") from error
        self._folder = path.parent

    def native_config(self) -> dict[str, Any]:
        """The description of the pipeline for the runtime."""
        return self._pipeline

    def executors(self) -> list[Module]:
        """An executor for each stage."""
        found = []
        for item in sorted(self._libraries, key=lambda e: int(e["mod_idx"])):
            library = runtime.load_module(self._folder / item["lib_name"])
            kind, _, number = item["dev"].partition(",")
            found.append(library[item["mod_name"]](Device(int(kind), int(number))))
        return found
