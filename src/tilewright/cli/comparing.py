"""Two builds of a model side by side: how far they are apart, layer by layer, and where numbers are lost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from tilewright.cli.options import PRECISIONS
from tilewright.cli.work import Array, Shapes, compile_model, executor_of, fill_inputs, output_names, timed
from tilewright.relay.transform.mixed_precision import MOST
from tilewright.support.errors import TVMError

MEASURING_SECONDS = 0.3


class Difference:
    """Of two arrays of one shape: `error`, the largest difference by the largest magnitude of the reference, over what is finite in
    both and within `most`, what the type of the first can hold (constants beyond it were made that); `lost`: how many values are
    finite in the reference only, of `size`."""

    __slots__ = ("error", "lost", "name", "size", "what")

    def __init__(self, name: str, what: str, found: Array, reference: Array, most: float = np.inf) -> None:
        self.name, self.what, self.size = name, what, reference.size
        got, want = (a.astype(np.float64).reshape(-1) for a in (found, reference))
        finite = np.isfinite(want)
        self.lost = int((finite & ~np.isfinite(got)).sum())
        both = finite & np.isfinite(got)
        want = np.clip(want, -most, most)
        scale = float(np.abs(want[finite]).max(initial=0.0))
        apart = float(np.abs(got[both] - want[both]).max(initial=0.0))
        self.error = apart / scale if scale else apart


class Comparison:
    """What `tilewright compare` shows: `layers` in the order in which they run, `outputs`, and milliseconds by build."""

    def __init__(
        self,
        precision: str,
        against: str,
        layers: Sequence[Difference],
        outputs: Sequence[Difference],
        milliseconds: Mapping[str, float],
        top: int,
    ) -> None:
        self.precision, self.against, self.top = precision, against, top
        self.layers, self.outputs, self.milliseconds = list(layers), list(outputs), dict(milliseconds)

    @property
    def first_lost(self) -> Difference | None:
        """The first layer, or else output, that lost numbers."""
        return next((d for d in (*self.layers, *self.outputs) if d.lost), None)

    def rendered(self, title: str) -> list[Any]:
        """Tables and lines to print."""
        parts: list[Any] = []
        if self.layers:
            shown = sorted(sorted(self.layers, key=lambda d: (-d.lost, -d.error))[: self.top], key=self.layers.index)
            parts.append(
                self._table(f"{title}: {self.precision} against {self.against}, layers with the largest errors", shown)
            )
            if len(self.layers) > len(shown):
                parts.append(f"({len(self.layers) - len(shown)} more layers with smaller errors)")
        parts.append(self._table(f"{title}: outputs of {self.precision} against {self.against}", self.outputs))
        times = [f"{name} {ms:.3g} ms" for name, ms in self.milliseconds.items()]
        mine, theirs = self.milliseconds.values()
        parts.append(f"{', '.join(times)}: {theirs / mine:.2f} times as fast")
        return parts

    def _table(self, title: str, rows: Sequence[Difference]) -> Table:
        table = Table(title=title, title_justify="left")
        table.add_column("name", overflow="fold")
        table.add_column("computed by", overflow="fold")
        for column in ("largest error", "lost values"):
            table.add_column(column, justify="right")
        for d in rows:
            table.add_row(d.name, d.what, f"{d.error:.1e}", f"{d.lost} of {d.size}" if d.lost else "")
        return table

    def check(self, tolerance: float | None) -> None:
        """TVMError where numbers were lost, or where an output is further off than the tolerance."""
        first = self.first_lost
        if first is not None:
            narrow = PRECISIONS[self.precision]
            limit = f" {narrow} holds numbers up to {MOST[narrow]:.5g}." if narrow in MOST else ""
            other = " --precision bf16 has the range of float32; else keep" if narrow == "float16" else " Keep"
            raise TVMError(
                f"{first.name} ({first.what}) overflows: {first.lost} of {first.size} values are infinite or NaN at"
                f" {self.precision} and finite in {self.against}; it is the first layer of those that do.{limit}{other} the operator"
                " in float32 with relay.op.register_mixed_precision_conversion"
            )
        for d in self.outputs:
            if tolerance is not None and d.error > tolerance:
                raise TVMError(
                    f"output {d.name} is {d.error:.2e} of its largest value away from {self.against}, more than --tolerance {tolerance:g}"
                )


class _Build:
    """A compiled model that runs, whole or kernel by kernel."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.executor = executor_of(library)

    def outputs(self) -> dict[str, Array]:
        self.executor.run()
        return {name: self.executor.get_output(i).numpy() for i, name in enumerate(output_names(self.executor))}

    def layers(self, inputs: Mapping[str, Array]) -> dict[str, tuple[str, Array]]:
        """Node of the model -> (the last kernel that computes it, its result). A kernel stands under the last of the nodes fused in it."""
        import tilewright as tvm
        from tilewright.contrib.debugger.debug_executor import GraphModuleDebug

        graph = self.library.get_graph_json()
        debug = GraphModuleDebug(self.library["debug_create"]("default", tvm.cpu()), [tvm.cpu()], graph)
        for name, value in inputs.items():
            debug.set_input(name, np.ascontiguousarray(value))
        calls = iter(self.library.plan.calls)
        found: dict[str, tuple[str, Array]] = {}
        try:
            for i, node in enumerate(json.loads(graph)["nodes"]):
                debug.execute_node(i)
                if node["op"] == "null" or node["attrs"]["func_name"] == "__nop":
                    continue
                source = next(calls).source.split(", ")[-1] or node["name"]
                found.pop(source, None)
                found[source] = node["attrs"]["func_name"], debug.get_node_output(i).numpy()
        finally:
            debug.exit()
        return found


def compare_models(
    model: Path,
    shapes: Shapes,
    target: str,
    opt_level: int,
    precision: str,
    given: Mapping[str, Array],
    seed: int,
    top: int,
) -> Comparison:
    """The build at a precision against the one in float32; in float32 against ONNX Runtime."""
    library, _ = compile_model(model, shapes, target, opt_level, executor="graph", precision=precision)
    mine = _Build(library)
    inputs = fill_inputs(mine.executor, given, seed)
    if precision == "fp32":
        from tilewright.cli.commands import peer_session

        session = peer_session(model, None)
        if session is None:
            raise TVMError(
                "at --precision fp32 the reference is ONNX Runtime, which is not installed or does not take the model; install onnxruntime,"
                " or compare --precision bf16 or fp16 with float32"
            )
        names = [o.name for o in session.get_outputs()]
        wanted = dict(zip(names, session.run(None, inputs), strict=True))
        got = list(mine.outputs().values())
        outputs = [Difference(n, "output", g, w) for (n, w), g in zip(wanted.items(), got, strict=True)]
        runs = {"Tilewright": mine.executor.run, "ONNX Runtime": lambda: session.run(None, inputs)}
        return Comparison(precision, "ONNX Runtime", (), outputs, _times(runs), top)
    plain, _ = compile_model(model, shapes, target, opt_level, executor="graph")
    reference = _Build(plain)
    fill_inputs(reference.executor, inputs, seed)
    theirs = reference.layers(inputs)
    most = MOST[PRECISIONS[precision]]
    layers = [
        Difference(name, kernel, value, theirs[name][1], most)
        for name, (kernel, value) in mine.layers(inputs).items()
        if name in theirs and theirs[name][1].shape == value.shape and theirs[name][1].dtype.kind == "f"
    ]
    wanted = reference.outputs()
    outputs = [Difference(name, "output", value, wanted[name]) for name, value in mine.outputs().items()]
    runs = {precision: mine.executor.run, "fp32": reference.executor.run}
    return Comparison(precision, "float32", layers, outputs, _times(runs), top)


def _times(runs: Mapping[str, Any]) -> dict[str, float]:
    """Median milliseconds, measured in turn."""
    rounds: dict[str, list[Array]] = {name: [] for name in runs}
    for _ in range(3):
        for name, run in runs.items():
            rounds[name].append(timed(run, MEASURING_SECONDS / 3))
    return {name: float(np.median(np.concatenate(parts))) for name, parts in rounds.items()}
