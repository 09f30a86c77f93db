"""A model and a reference side by side: how far they are apart, layer by layer, which layer departs first, where numbers are lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from tilewright.cli.machine import MachineExecutor
from tilewright.cli.measuring import timed
from tilewright.cli.models import (
    build_module,
    check_shapes,
    checked_target,
    compile_model,
    executor_of,
    format_of,
    imported_model,
)
from tilewright.cli.options import PRECISIONS, Shapes
from tilewright.cli.screen import Report, progress, shown_warnings
from tilewright.cli.tensors import Array, fill_inputs, output_names
from tilewright.relay.frontend.common.layers import Layer, keeping, layers_of, matched
from tilewright.relay.frontend.common.module import is_static
from tilewright.relay.transform.mixed_precision import MOST
from tilewright.support.errors import TVMError

MEASURING_SECONDS = 0.3
KEPT_BYTES = 1 << 29
"""Results of nodes that one build answers; a model with more is compared in several."""
DEPARTS = {"fp32": 1e-3, "bf16": 5e-2, "fp16": 1e-2}
"""From which error on a layer is said to depart from the reference."""


class Difference:
    """Of two arrays of one shape: `error`, the largest difference by the largest magnitude of the reference, over what is finite in
    both; `most` is what the type of the first can hold: constants beyond it were made that, while sums in float32 go on; `lost`: how
    many values are finite in the reference only, of `size`. Whole numbers of 8 and 16 bits stand for floats, and are measured by the
    range of their type; `rounding`: by how much of it they may be apart before they depart."""

    __slots__ = ("error", "lost", "name", "rounding", "size", "what")

    def __init__(
        self, name: str, what: str, found: Array, reference: Array, most: float = np.inf, rounding: float = 0.0
    ) -> None:
        self.name, self.what, self.size = name, what, reference.size
        small = reference.dtype.kind in "iu" and reference.dtype.itemsize < 4
        self.rounding = rounding if small else 0.0
        got, want = (a.astype(np.float64).reshape(-1) for a in (found, reference))
        finite = np.isfinite(want)
        self.lost = int((finite & ~np.isfinite(got)).sum())
        both = finite & np.isfinite(got)
        held = np.clip(want, -most, most)
        want = np.where(np.abs(got - held) < np.abs(got - want), held, want)
        scale = float(np.abs(want[finite]).max(initial=0.0)) if not small else 256.0**reference.dtype.itemsize - 1
        apart = float(np.abs(got[both] - want[both]).max(initial=0.0))
        self.error = apart / scale if scale else apart

    def departs(self, limit: float) -> bool:
        """Whether it is further off than that, or numbers are lost."""
        return self.lost > 0 or not self.error <= max(limit, self.rounding)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "name": self.name, "computed_by": self.what, "error": self.error, "lost_values": self.lost, "values": self.size,
        }  # fmt: skip


class Departure:
    """The first layer that departs: its `difference`, the errors of the nodes it reads (`reads`), and `how` it was found."""

    __slots__ = ("difference", "how", "reads")

    def __init__(self, difference: Difference, reads: Mapping[str, float], how: str) -> None:
        self.difference, self.reads, self.how = difference, dict(reads), how

    def __str__(self) -> str:
        d = self.difference
        what = (
            f"{d.lost} of {d.size} values are infinite or NaN" if d.lost else f"by {d.error:.1e} of its largest value"
        )
        worst = max(self.reads.values(), default=0.0)
        before = f"what it reads differs by at most {worst:.1e}" if self.reads else "it reads inputs and weights only"
        return f"{d.name} ({d.what}) is the first layer that departs: {what}; {before} ({self.how})"

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {**self.difference.to_dict(), "reads": self.reads, "found_by": self.how}


class Comparison:
    """What `tilewright compare` shows: `layers` in the order in which they run, `outputs`, milliseconds by build (if they were measured),
    the `first` layer that departs by more than `limit`; `tolerance` of outputs, None: any."""

    def __init__(
        self,
        precision: str,
        against: str,
        layers: Sequence[Difference],
        outputs: Sequence[Difference],
        milliseconds: Mapping[str, float],
        tolerance: float | None,
        first: Departure | None = None,
        unmatched: int = 0,
    ) -> None:
        self.precision, self.against, self.tolerance, self.first = precision, against, tolerance, first
        self.layers, self.outputs, self.milliseconds = list(layers), list(outputs), dict(milliseconds)
        self.unmatched = unmatched

    @property
    def first_lost(self) -> Difference | None:
        """The first layer, or else output, that lost numbers."""
        return next((d for d in (*self.layers, *self.outputs) if d.lost), None)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "precision": self.precision,
            "reference": self.against,
            "outputs": [d.to_dict() for d in self.outputs],
            "layers": [d.to_dict() for d in self.layers],
            "nodes_without_counterpart": self.unmatched,
            "first_departing": self.first.to_dict() if self.first is not None else None,
            "first_lost": self.first_lost.to_dict() if self.first_lost is not None else None,
            "tolerance": self.tolerance,
            "milliseconds": self.milliseconds,
        }

    def rendered(self, title: str, top: int) -> list[Any]:
        """Tables and lines to print: the `top` layers with the largest errors."""
        parts: list[Any] = []
        if self.layers:
            shown = sorted(sorted(self.layers, key=lambda d: (-d.lost, -d.error))[:top], key=self.layers.index)
            parts.append(
                self._table(f"{title}: {self.precision} against {self.against}, layers with the largest errors", shown)
            )
            if len(self.layers) > len(shown):
                parts.append(f"({len(self.layers) - len(shown)} more layers with smaller errors)")
        if self.unmatched:
            parts.append(f"({self.unmatched} nodes have no counterpart of the same shape, and are not compared)")
        parts.append(self._table(f"{title}: outputs of {self.precision} against {self.against}", self.outputs))
        if self.first is not None:
            parts.append(str(self.first))
        elif self.layers and self.against != "float32":
            parts.append("no layer departs")
        if self.milliseconds:
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
            # Where all are lost, none is left to be measured.
            error = f"{d.error:.1e}" if d.lost < d.size or not d.size else ""
            table.add_row(d.name, d.what, error, f"{d.lost} of {d.size}" if d.lost else "")
        return table

    def check(self) -> None:
        """TVMError where numbers were lost, or where an output is further off than the tolerance."""
        lost = self.first_lost
        if lost is not None:
            raise TVMError(self._lost_text(lost))
        for d in self.outputs:
            if self.tolerance is not None and d.departs(self.tolerance):
                why = f". {self.first}" if self.first is not None else ""
                raise TVMError(
                    f"output {d.name} is {d.error:.2e} of its largest value away from {self.against}, more than --tolerance"
                    f" {self.tolerance:g}{why}"
                )

    def _lost_text(self, first: Difference) -> str:
        at = f"{first.lost} of {first.size} values are infinite or NaN at {self.precision} and finite in {self.against}"
        if self.precision == "fp32":
            return f"{first.name} ({first.what}) loses numbers: {at}; it is the first layer of those that do"
        narrow = PRECISIONS[self.precision]
        limit = f" {narrow} holds numbers up to {MOST[narrow]:.5g}." if narrow in MOST else ""
        other = " --precision bf16 has the range of float32; else keep" if narrow == "float16" else " Keep"
        return (
            f"{first.name} ({first.what}) overflows: {at}; it is the first layer of those that do.{limit}{other} the operator"
            " in float32 with relay.op.register_mixed_precision_conversion"
        )


class _Build:
    """A compiled model that runs whole, and, if it has a library of kernels (`library`), kernel by kernel."""

    def __init__(self, executor: Any, library: Any = None) -> None:
        self.executor, self.library = executor, library

    def outputs(self) -> dict[str, Array]:
        """By name."""
        self.executor.run()
        return {name: self.executor.get_output(i).numpy() for i, name in enumerate(output_names(self.executor))}

    def results(self) -> list[Array]:
        """In order; names may be the same."""
        self.executor.run()
        return [self.executor.get_output(i).numpy() for i in range(self.executor.get_num_outputs())]

    def layers(self, inputs: Mapping[str, Array]) -> dict[str, tuple[str, Array]]:
        """Node of the model -> (the last kernel that computes it, its result). A kernel stands under the last of the nodes fused in it."""
        import tilewright as tvm
        from tilewright.contrib.debugger.debug_executor import GraphModuleDebug

        graph = self.library.get_graph_json()
        debug = GraphModuleDebug(self.library["debug_create"]("default", tvm.cpu()), [tvm.cpu()], graph)
        for name, value in inputs.items():
            debug.set_input(name, np.asarray(value, order="C"))
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
    runtime: str | None = None,
    tolerance: float | None = None,
) -> Comparison:
    """The build at a precision against another runtime, or (runtime "float32") against the build in float32."""
    if runtime is None and precision == "fp32":
        usual = format_of(model).runtimes
        if not usual:
            raise TVMError(
                f"no runtime is known to compare {model} with; compare --precision bf16 or fp16 with float32"
            )
        runtime = usual[0]
    if runtime not in (None, "float32"):
        return Against(model, shapes, target, opt_level, precision, str(runtime), tolerance).compared(given, seed)
    if precision == "fp32":
        others = "".join([f", or --reference {r}" for r in format_of(model).runtimes])
        raise TVMError(f"--precision fp32 is float32 itself; give --precision bf16 or fp16{others}")
    # A border around a result changes no value, but its shape: the kernels of both builds are to be alike.
    alike: Any = {"executor": "graph", "without": ("WriteBorders",)}
    library, _ = compile_model(model, shapes, target, opt_level, precision=precision, **alike)
    mine = _Build(executor_of(library), library)
    inputs = fill_inputs(mine.executor, given, seed)
    plain, _ = compile_model(model, shapes, target, opt_level, **alike)
    reference = _Build(executor_of(plain), plain)
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
    return Comparison(precision, "float32", layers, outputs, _times(runs), tolerance)


class Against:
    """A comparison with another runtime: whole, and node by node.

    The results of nodes are kept as further outputs, which keeps kernels from being fused over them, and compared with the runtime's, by
    the names that spans carry. Where a node departs, it is found so, with what it reads. Where only the whole model does, a fused kernel
    is wrong: builds that end at a node, fused as the whole model is up to there, are halved until the first wrong one is found.
    """

    def __init__(
        self,
        model: Path,
        shapes: Shapes,
        target: str,
        opt_level: int,
        precision: str,
        runtime: str,
        tolerance: float | None,
    ) -> None:
        self.model, self.shapes, self.precision = model, shapes, precision
        self.target, self.opt_level = checked_target(target), opt_level
        self.format = format_of(model)
        if runtime not in self.format.runtimes:
            known = ", ".join([f"--reference {r}" for r in self.format.runtimes]) or "none"
            raise TVMError(f"{model} is a model of {self.format.title}; references for it: {known}, not {runtime}")
        self.runtime = runtime
        self.limit = DEPARTS[precision] if tolerance is None else tolerance
        self.tolerance = self.limit if tolerance is None and precision == "fp32" else tolerance
        self.most = MOST.get(PRECISIONS[precision], np.inf)

    def compared(self, given: Mapping[str, Array], seed: int) -> Comparison:
        """The whole comparison on these inputs."""
        with progress("comparing") as report, shown_warnings():
            self.report: Report = report
            report(0, 0, "importing")
            self.module, self.params = imported_model(self.model, self.shapes)
            check_shapes(self.model, self.module["main"])
            self.reference = self.format.reference(self.model, self.runtime, dict(self.shapes))
            whole = self.built(self.module)
            self.inputs = fill_inputs(whole.executor, given, seed)
            wanted, _ = self.reference.run(self.inputs)
            names = output_names(whole.executor)
            results = whole.results()
            if len(results) != len(wanted):
                raise TVMError(
                    f"{self.model} has {len(results)} outputs here, and {len(wanted)} in {self.reference.title}"
                )
            outputs = [
                Difference(n, "output", g, fitting(w, g), self.most, self.reference.rounding)
                for n, g, w in zip(names, results, wanted, strict=True)
            ]
            written = self.format.as_written(self.model, dict(self.shapes))
            self.module, self.params = written or (self.module, self.params)
            found = self.layers()
            first = self.first_departing(found)
            if first is None and any([d.departs(self.limit) for d in outputs]):
                first = self.first_when_fused([layer for layer, _ in found])
        layers = [d for _, group in found for d in group]
        unmatched = len(self.reference.nodes) - len(found)
        title = self.reference.title
        return Comparison(self.precision, title, layers, outputs, {}, self.tolerance, first, unmatched)

    def built(self, module: Any) -> _Build:
        """A module compiled like the model; one that decides at run time for the virtual machine."""
        if is_static(module):
            library = build_module(module, self.params, self.target, self.opt_level, self.precision, self.report)
            return _Build(executor_of(library), library)
        return _Build(MachineExecutor(module, self.params, self.target, self.opt_level, self.precision, self.report))

    def layers(self) -> list[tuple[Layer, list[Difference]]]:
        """The nodes that both have, in order, and how far their results are apart."""
        found = []
        for part in parted(layers_of(self.module, self.reference.nodes)):
            build = self.built(keeping(self.module, [e for layer in part for e in layer.exprs], outputs=False))
            values = iter(self.values(build))
            _, made = self.reference.run(self.inputs, [layer.name for layer in part])
            for layer in part:
                group = self.differences(layer, [next(values) for _ in layer.exprs], made.get(layer.name, []))
                if group:
                    found.append((layer, group))
        return found

    def values(self, build: _Build) -> list[Array]:
        """What a build makes of the inputs; it may need fewer of them."""
        table = set(build.executor.get_input_info()[0])
        fill_inputs(build.executor, {n: v for n, v in self.inputs.items() if n in table}, 0)
        return build.results()

    def differences(self, layer: Layer, mine: Sequence[Array], theirs: Sequence[Array]) -> list[Difference]:
        """One for each result of a node that has a counterpart."""
        pairs = matched(layer.exprs, theirs)
        names = [f"{layer.name}[{j}]" if len(theirs) > 1 else layer.name for _, j in pairs]
        what = self.reference.nodes[layer.name]
        return [
            Difference(name, what, mine[i], theirs[j], self.most, self.reference.rounding)
            for name, (i, j) in zip(names, pairs, strict=True)
        ]

    def first_departing(self, found: Sequence[tuple[Layer, list[Difference]]]) -> Departure | None:
        """The first node whose results depart though all that it reads agrees; else the first that departs."""
        errors = {layer.name: max([d.error for d in group]) for layer, group in found}
        wrong = {layer.name for layer, group in found if any([d.departs(self.limit) for d in group])}
        departing = [(layer, group) for layer, group in found if layer.name in wrong]
        clean = [(layer, group) for layer, group in departing if not wrong & set(layer.reads)]
        for layer, group in clean or departing:
            reads = {n: errors[n] for n in layer.reads if n in errors}
            worst = max(group, key=lambda d: (d.lost > 0, d.error))
            return Departure(worst, reads, "all results of nodes compared")
        return None

    def first_when_fused(self, layers: Sequence[Layer]) -> Departure | None:
        """The first node at which a build that ends there departs, by halving."""
        seen: dict[int, list[Difference]] = {}

        def departs(k: int) -> bool:
            if k not in seen:
                layer = layers[k]
                build = self.built(keeping(self.module, layer.exprs, outputs=False))
                _, made = self.reference.run(self.inputs, [layer.name])
                seen[k] = self.differences(layer, self.values(build), made[layer.name])
            return any([d.departs(self.limit) for d in seen[k]])

        k = bisected(len(layers), departs)
        if k is None:
            return None
        worst = max(seen[k], key=lambda d: (d.lost > 0, d.error))
        reads = {layers[j].name: max([d.error for d in seen[j]]) for j in seen if layers[j].name in layers[k].reads}
        return Departure(worst, reads, f"only when fused with what comes before it: bisection, {len(seen)} builds")


def bisected(count: int, departs: Callable[[int], bool]) -> int | None:
    """The first of so many places that departs, taken that all after it do; None if the last does not."""
    if not count or not departs(count - 1):
        return None
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if departs(middle) else (middle + 1, high)
    return low


def parted(layers: Sequence[Layer]) -> list[list[Layer]]:
    """Runs of layers whose results take at most KEPT_BYTES together."""
    parts: list[list[Layer]] = []
    size = 0
    for layer in layers:
        size += layer.bytes
        if not parts or size > KEPT_BYTES:
            parts.append([])
            size = layer.bytes
        parts[-1].append(layer)
    return parts


def fitting(reference: Array, found: Array) -> Array:
    """A reference's output in the shape found here, where only axes of extent 1 differ."""
    if reference.shape != found.shape and reference.size == found.size:
        return reference.reshape(found.shape)
    if reference.shape != found.shape:
        raise TVMError(f"an output has the shape {found.shape} here, and {reference.shape} in the reference")
    return reference


def _times(runs: Mapping[str, Any]) -> dict[str, float]:
    """Median milliseconds, measured in turn."""
    rounds: dict[str, list[Array]] = {name: [] for name in runs}
    for _ in range(3):
        for name, run in runs.items():
            rounds[name].append(timed(run, MEASURING_SECONDS / 3))
    return {name: float(np.median(np.concatenate(parts))) for name, parts in rounds.items()}
