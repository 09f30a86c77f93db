"""What is tuned: a model file, or operators alone."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.cli.models import (
    build_module,
    checked_target,
    dynamic_dimensions,
    executor_for,
    imported_model,
    pins_text,
    precision_config,
    why_not_static,
)
from tilewright.cli.options import Build
from tilewright.cli.screen import progress, shown_warnings
from tilewright.relay.backend.tuning_tasks import KernelTask
from tilewright.relay.frontend.common.module import is_static
from tilewright.support.errors import TVMError
from tilewright.tuning.measure import Builder, Runner
from tilewright.tuning.program import Decided
from tilewright.tuning.session import Limits

ONLY_FILES = {
    "shapes": "--shape", "values": "--value", "outputs": "--outputs", "inputs_at": "--inputs-at", "calibrate": "--calibrate",
}  # fmt: skip
"""Options of the import of a model file, which operators do not have."""
RELAYOUT = re.compile(r"fused_layout_transform(_\d+)?")


class Subject:
    """A model file with the options of its import and build, or operators as texts. It is imported once.

    title: for people; records: the default file of records. Raises TVMError for options that do not fit.
    """

    def __init__(self, build: Build, operators: Sequence[str] = ()) -> None:
        self.build, self.operators = build, tuple(operators)
        self.target = checked_target(build.target)
        self._module: tuple[Any, Any] | None = None
        if not operators:
            self.title, self.records = build.model.name, build.model.with_suffix(".records")
            return
        given = [option for name, option in ONLY_FILES.items() if getattr(build, name)]
        if given:
            raise TVMError(f"{given[0]} is of model files, but --shapes describes operators with all that they take")
        if build.precision == "int8":
            raise TVMError(
                "--precision int8 quantises models; give the operators of --shapes int8 tensors, such as 64x64x3x3:int8"
            )
        self.title = operators[0] if len(operators) == 1 else f"{len(operators)} operators"
        self.records = Path("operators.records")

    def module(self) -> tuple[Any, Any]:
        """The relay module and its parameters."""
        if self._module is None:
            with progress("importing") as report, shown_warnings():
                report(0, 0, "importing")
                if self.operators:
                    from tilewright.cli.tuner.operators import module_of

                    self._module = module_of(self.operators), {}
                else:
                    self._module = imported_model(self.build)
        return self._module

    def decide(self, builder: Builder, runner: Runner, path: Path, limits: Limits) -> Decided | None:
        """Tunes the decisions about the program, which are kept in the file of records; None if that is done."""
        from tilewright.relay.backend.model_program import ModelProgram, decide_program

        mod, params = self._static_module()
        with progress("trying other kernels") as report, shown_warnings(), self._context():
            return decide_program(ModelProgram(mod, self.target, params), builder, runner, path, limits, report)

    def decisions(self, path: Path) -> dict[str, Any]:
        """The decisions about programs in a file of records."""
        from tilewright.scheduling.database import PlanDatabase

        return PlanDatabase(path).of_problems(self.target.text_for_all)

    def tasks(self, only: Sequence[str], records: Path) -> list[KernelTask]:
        """The kernels to tune, with the decisions about the program that are in the file of records. only: parts of names, of which each
        kernel has at least one; empty: all, of operators without relayouts. Raises TVMError if there are none."""
        from tilewright.relay.backend.model_program import ModelProgram

        mod, params = self._static_module()
        with progress("finding kernels") as report, shown_warnings():
            report(0, 0, "finding kernels")
            with self._context():
                tasks = ModelProgram(mod, self.target, params).tasks(records)
        if not tasks:
            raise TVMError(f"{self.title} has no kernels whose schedules could be tuned for {self.target}")
        own = [t for t in tasks if not RELAYOUT.fullmatch(t.name)]
        if self.operators and not only and own:
            # Copies into the layout of an operator and back belong to the models that it stands in.
            return own
        found = [t for t in tasks if not only or any([part in t.name for part in only])]
        if not found:
            names = ", ".join([t.name for t in tasks])
            raise TVMError(f"--only {' --only '.join(only)}: no kernel has such a name; the kernels are {names}")
        return found

    def _context(self) -> Any:
        """The options of the build."""
        import tilewright as tvm

        return tvm.transform.PassContext(self.build.opt_level, config=precision_config(self.build.precision))

    def _static_module(self) -> tuple[Any, Any]:
        """The relay module and its parameters. Raises TVMError for dynamic dimensions and control flow."""
        mod, params = self.module()
        if not is_static(mod):
            remedy = f"; {pins_text(self.build, mod)}" if dynamic_dimensions(mod) else ""
            raise TVMError(
                f"{self.title}: tune takes models with static dimensions and without control flow, but {why_not_static(mod)}{remedy}"
            )
        return mod, params

    def library(self, records: Path | None) -> Any:
        """The compiled model, with records or untuned."""
        mod, params = self.module()
        build = self.build
        with progress("compiling kernels") as report, shown_warnings():
            executor = executor_for(build, mod)
            bounds = build.check_bounds
            return build_module(
                mod, params, self.target, build.opt_level, build.precision, report, (), executor, (), bounds, records
            )

    def commands(self, records: Path) -> list[str]:
        """The commands that use the records; for operators, any model that contains them."""
        build = self.build
        if self.operators:
            return [f"tilewright compile MODEL --records {shlex.quote(str(records))} -o model.so"]
        words = ["tilewright", "compile", str(build.model), *build.words(), "--records", str(records), "-o"]
        return [shlex.join([*words, f"{build.model.stem}.so"])]
