"""Memory of a run: planned for static dimensions, measured for dynamic ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.cli.machine import MachineExecutor
from tilewright.cli.models import (
    LIBRARIES,
    build_module,
    checked_target,
    executor_for,
    executor_of,
    imported_model,
    load_or_compile,
    metadata_of,
    precision_config,
)
from tilewright.cli.options import Build, Feed
from tilewright.cli.screen import progress, shown_warnings
from tilewright.cli.tensors import described, feed_model, outputs_of, run_checked
from tilewright.support.errors import TVMError


class Memory:
    """Memory of a run. `totals`: bytes by purpose; `facts`: everything as plain values; `text`: for people."""

    def __init__(self, totals: Mapping[str, int], facts: Mapping[str, Any], text: str) -> None:
        self.totals, self.facts, self.text = dict(totals), dict(facts), text


def memory_of(build: Build, feed: Feed) -> Memory:
    """The memory of a model file or of a library."""
    if build.model.suffix in LIBRARIES:
        return memory_of_library(load_or_compile(build)[0], feed)
    import tilewright as tvm
    from tilewright.relay.backend.compilation import plan_memory

    target = checked_target(build.target)
    with shown_warnings():
        mod, params = imported_model(build)
        if executor_for(build, mod) != "vm":
            with tvm.transform.PassContext(opt_level=build.opt_level, config=precision_config(build.precision)):
                plan = plan_memory(mod, target, params)
            return Memory(dict(plan.totals()), plan.to_dict(), str(plan))
        with progress("compiling kernels") as report:
            library = build_module(mod, params, target, build.opt_level, build.precision, report, executor="vm")
    return measured(library, metadata_of(library), feed)


def memory_of_library(library: Any, feed: Feed) -> Memory:
    """The memory that a library's metadata states, or that a run in the virtual machine takes."""
    facts = metadata_of(library)
    if facts.get("executor") == "vm":
        return measured(library, facts, feed)
    if "workspace_bytes" not in facts:
        raise TVMError("the library holds functions, but no model; use a library that `tilewright compile` wrote")
    executor = executor_of(library)
    inputs = feed_model(executor, feed, tell=False)
    totals = {
        "activations (arena)": int(facts["workspace_bytes"]),
        "inputs": sum([v.nbytes for v in inputs.values()]),
        "outputs": sum([executor.get_output(i).numpy().nbytes for i in range(executor.get_num_outputs())]),
        "constants": int(facts["constants_bytes"]),
    }
    return Memory(totals, plain(totals), lines(totals))


def measured(library: Any, facts: Mapping[str, Any], feed: Feed) -> Memory:
    """The memory of a run in the virtual machine, measured."""
    executor = MachineExecutor(library, facts)
    inputs = feed_model(executor, feed)
    run_checked(executor)
    executor.peak_memory()
    run_checked(executor)
    totals = {
        "peak of tensors": executor.peak_memory(),
        "inputs": sum([v.nbytes for v in inputs.values()]),
        "outputs": sum([v.nbytes for v in outputs_of(executor).values()]),
        "constants": int(facts["constants_bytes"]),
    }
    text = ", ".join([described(n, v.dtype.name, v.shape) for n, v in inputs.items()])
    note = f"\nmeasured in a run on {text}: tensors that the run allocates, with outputs, without workspaces of kernels"
    return Memory(
        totals,
        {**plain(totals), "inputs_of_the_run": {n: list(v.shape) for n, v in inputs.items()}},
        lines(totals) + note,
    )


def lines(totals: Mapping[str, int]) -> str:
    """One line per purpose."""
    return "\n".join([f"{name:<22}{size:>14,} bytes" for name, size in totals.items()])


def plain(totals: Mapping[str, int]) -> dict[str, int]:
    """The totals under names for programs."""
    return {name.split(" (")[0].replace(" ", "_"): size for name, size in totals.items()}
