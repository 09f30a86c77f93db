"""Evaluations of models by projects: tuning, sessions with models that were compiled ahead of time, labels and times."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilewright import autotvm, relay
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.micro.build import AutoTvmModuleLoader, autotvm_build_func
from tilewright.micro.errors import MicroError
from tilewright.micro.project import generate_project
from tilewright.micro.project_api.server import TransportTimeouts
from tilewright.micro.standalone import get_microtvm_template_projects
from tilewright.micro.transport_session import TransportSession
from tilewright.relay.backend import Executor, Runtime
from tilewright.target import Target

MEASURED_IN = 120
"""Seconds of a configuration: its project is built, flashed and measured in them."""


def _options(board: str | None, more: Mapping[str, Any] | None) -> dict[str, Any]:
    return {**({"board": board} if board not in (None, "host") else {}), **(more or {})}


def tune_model(
    platform: str,
    board: str | None,
    target: Target,
    mod: IRModule,
    params: Mapping[str, Any],
    num_trials: int,
    tuner_cls: Any = None,
    project_options: Mapping[str, Any] | None = None,
) -> io.StringIO:
    """The records of AutoTVM for the tasks of a model, measured on one board by projects.

    platform, board: of the template. num_trials: configurations of each task. tuner_cls: a tuner of autotvm; default: GATuner.
    project_options: besides the board. Raises MicroError where the model has no tasks.
    """
    with PassContext(opt_level=3):
        tasks = autotvm.task.extract_from_program(mod["main"], dict(params), target)
    if not tasks:
        raise MicroError(f"AutoTVM has no templates for the operators of this model on {target}")
    loader = AutoTvmModuleLoader(get_microtvm_template_projects(platform), _options(board, project_options))
    builder = autotvm.LocalBuilder(timeout=MEASURED_IN, n_parallel=1, build_func=autotvm_build_func)
    runner = autotvm.LocalRunner(timeout=MEASURED_IN, number=1, repeat=1, module_loader=loader)
    option, records = autotvm.measure_option(builder=builder, runner=runner), io.StringIO()
    for task in tasks:
        tuner = (tuner_cls or autotvm.tuner.GATuner)(task)
        tuner.tune(n_trial=num_trials, measure_option=option, callbacks=[autotvm.callback.log_to_file(records)])
    records.seek(0)
    return records


@contextlib.contextmanager
def create_aot_session(
    platform: str,
    board: str | None,
    target: Target,
    mod: IRModule,
    params: Mapping[str, Any],
    build_dir: str | Path | None = None,
    tune_logs: Any = None,
    timeout_override: TransportTimeouts | None = None,
    use_cmsis_nn: bool = False,
    project_options: Mapping[str, Any] | None = None,
    use_existing: bool = False,
) -> Iterator[TransportSession]:
    """A session with a model that is compiled ahead of time, built and flashed: `with create_aot_session(...) as session`.

    build_dir: a new folder for the project; default: a temporary one. tune_logs: records of AutoTVM to compile with. use_existing: the
    project in build_dir is taken as it is. Raises MicroError for use_cmsis_nn: there is no code generator for CMSIS-NN.
    """
    if use_cmsis_nn:
        raise MicroError("there is no code generator for CMSIS-NN here; kernels for these cores are the compiler's own")
    with contextlib.ExitStack() as exits:
        place = exits.enter_context(tempfile.TemporaryDirectory(prefix="tilewright-project-"))
        folder = Path(build_dir) if build_dir is not None else Path(place) / "project"
        if use_existing:
            from tilewright.micro.project import GeneratedProject

            project = GeneratedProject.from_directory(folder, _options(board, project_options))
        else:
            applied = autotvm.apply_history_best(tune_logs) if tune_logs is not None else contextlib.nullcontext()
            with applied, PassContext(opt_level=3):
                lib = relay.build(mod, target, params=dict(params), executor=Executor("aot"), runtime=Runtime("crt"))
            template = get_microtvm_template_projects(platform)
            project = generate_project(template, lib, folder, _options(board, project_options))
        exits.callback(project.close)
        if not use_existing:
            project.build()
            project.flash()
        yield exits.enter_context(TransportSession(project.transport(), timeout_override=timeout_override))


def predict_labels_aot(
    session: TransportSession, aot_executor: Any, input_data: Iterable[Any], runs_per_sample: int = 1
) -> Iterator[tuple[int, float]]:
    """(label, seconds) of each sample: the place of the largest output, and the median time of `runs_per_sample` runs on the device."""
    if runs_per_sample < 1:
        raise ValueError(f"runs_per_sample is {runs_per_sample}, but must be 1 at least")
    for sample in input_data:
        aot_executor.set_input(aot_executor.get_input_name(0), np.asarray(sample))
        times = aot_executor.module.time_evaluator("run", session.device, number=1, repeat=runs_per_sample)().results
        yield int(np.argmax(aot_executor.get_output(0).numpy())), float(np.median(times))


__all__ = ["MEASURED_IN", "create_aot_session", "predict_labels_aot", "tune_model"]
