"""Comparison of a model with a reference: errors layer by layer, the first layer that differs, the layers that lose values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from tilewright.cli.measuring import timed
from tilewright.cli.models import (
    build_module,
    checked_target,
    compile_model,
    executor_for,
    executor_of,
    fixed_value,
    format_of,
    imported_model,
    load_library,
)
from tilewright.cli.options import PRECISIONS, Build, Feed
from tilewright.cli.oracle import ORACLE, OracleReference
from tilewright.cli.screen import Report, progress, shown_warnings
from tilewright.cli.tensors import (
    Array,
    carried,
    described,
    fill_inputs,
    input_table,
    output_names,
    read_sets,
    run_checked,
)
from tilewright.node.field_values import numpy_dtype
from tilewright.relay.frontend.common.formats import Reference
from tilewright.relay.frontend.common.module import is_static
from tilewright.relay.frontend.common.node_results import Layer, keeping, layers_of, matched
from tilewright.relay.transform.mixed_precision import MOST
from tilewright.runtime.host_functions.strings import decode_strings
from tilewright.support.errors import TVMError

MEASURING_SECONDS = 0.3
KEPT_BYTES = 1 << 29
"""Largest size of node results that one build returns. A model with more is compared in several builds."""
LIMITS = {"fp32": 1e-3, "bf16": 5e-2, "fp16": 1e-2, "int8": 0.2}
"""Smallest error from which on a layer counts as different."""


class Difference:
    """The difference of two arrays of one shape.

    `error`: the largest difference over the largest magnitude of the reference, among values that are finite in both. `most`: the
    largest value of the first array's type; larger constants were clipped to it, while sums in float32 were not. `lost`: the number of
    values, of `size`, that are finite in the reference only. Integers of 8 and 16 bits stand for floats: their error is a share of the
    range of their type, and up to `rounding` of it is no difference. Strings that differ are an error of 1.
    """

    __slots__ = ("error", "lost", "name", "rounding", "size", "what")

    def __init__(
        self, name: str, what: str, found: Array, reference: Array, most: float = np.inf, rounding: float = 0.0
    ) -> None:
        self.name, self.what, self.size = name, what, reference.size
        if reference.dtype.kind in "OUS":
            # Strings are equal or not.
            other = decode_strings(found).astype(str) != reference.astype(str)
            found, reference = other.astype(np.float32), np.zeros(reference.shape, np.float32)
        small = reference.dtype.kind in "iu" and reference.dtype.itemsize < 4
        self.rounding = rounding if small else 0.0
        got, want = (a.astype(np.float64).reshape(-1) for a in (found, reference))
        finite = np.isfinite(want)
        self.lost = int((finite & ~np.isfinite(got)).sum())
        both = finite & np.isfinite(got)
        held = np.clip(want, -most, most)
        want = np.where(np.abs(got - held) < np.abs(got - want), held, want)
        scale = float(np.abs(want[finite]).max(initial=0.0)) if not small else 256.0**reference.dtype.itemsize - 1
        distance = np.abs(got[both] - want[both])
        # Arithmetic that flushes denormals turns values below the smallest normal number into zero.
        distance[distance < max(smallest_normal(found), smallest_normal(reference))] = 0
        apart = float(distance.max(initial=0.0))
        self.error = apart / scale if scale else apart

    def differs(self, limit: float) -> bool:
        """Whether the error is above a limit, or values are lost."""
        return self.lost > 0 or not self.error <= max(limit, self.rounding)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "name": self.name, "computed_by": self.what, "error": self.error, "lost_values": self.lost, "values": self.size,
        }  # fmt: skip


def smallest_normal(a: Array) -> float:
    """The smallest normal number of a floating-point array's type; 0 for other types."""
    import ml_dtypes

    if a.dtype.kind not in "fV":
        return 0.0
    return float(ml_dtypes.finfo(a.dtype).smallest_normal)  # type: ignore[no-untyped-call]


class FirstDifference:
    """The first layer that differs: its difference, the errors of the nodes that it reads, and how it was found."""

    __slots__ = ("difference", "how", "reads")

    def __init__(self, difference: Difference, reads: Mapping[str, float], how: str) -> None:
        self.difference, self.reads, self.how = difference, dict(reads), how

    def __str__(self) -> str:
        d = self.difference
        what = (
            f"{d.lost} of {d.size} values are infinite or NaN" if d.lost else f"by {d.error:.1e} of its largest value"
        )
        worst = max(self.reads.values(), default=0.0)
        before = (
            f"its inputs differ by at most {worst:.1e}"
            if self.reads
            else "it reads inputs of the model and weights only"
        )
        return f"{d.name} ({d.what}) is the first layer that differs: {what}; {before} ({self.how})"

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {**self.difference.to_dict(), "reads": self.reads, "found_by": self.how}


class Comparison:
    """The result of `tilewright compare`: differences of layers, in the order in which they run, and of outputs; milliseconds by build, if
    measured; the first layer that differs; the tolerance of outputs, None: any; the number of sets of inputs, over which each
    difference is the largest; the number of nodes without a counterpart."""

    def __init__(
        self,
        precision: str,
        against: str,
        layers: Sequence[Difference],
        outputs: Sequence[Difference],
        milliseconds: Mapping[str, float],
        tolerance: float | None,
        first: FirstDifference | None = None,
        unmatched: int = 0,
        inputs: int = 1,
    ) -> None:
        self.precision, self.against, self.tolerance, self.first = precision, against, tolerance, first
        self.layers, self.outputs, self.milliseconds = list(layers), list(outputs), dict(milliseconds)
        self.unmatched, self.inputs = unmatched, inputs

    @property
    def first_lost(self) -> Difference | None:
        """The first layer, or else output, that lost values."""
        return next((d for d in (*self.layers, *self.outputs) if d.lost), None)

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain values."""
        return {
            "precision": self.precision,
            "reference": self.against,
            "sets_of_inputs": self.inputs,
            "outputs": [d.to_dict() for d in self.outputs],
            "layers": [d.to_dict() for d in self.layers],
            "nodes_without_counterpart": self.unmatched,
            "first_differing": self.first.to_dict() if self.first is not None else None,
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
            parts.append(f"({self.unmatched} nodes without a counterpart of the same shape are not compared)")
        over = f", largest over {self.inputs} sets of inputs" if self.inputs > 1 else ""
        parts.append(self._table(f"{title}: outputs of {self.precision} against {self.against}{over}", self.outputs))
        if self.first is not None:
            parts.append(str(self.first))
        elif self.layers and self.against != "float32":
            parts.append("no layer differs")
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
            # If all values are lost, there is no error to show.
            error = f"{d.error:.1e}" if d.lost < d.size or not d.size else ""
            table.add_row(d.name, d.what, error, f"{d.lost} of {d.size}" if d.lost else "")
        return table

    def check(self) -> None:
        """Raises TVMError if values were lost, or if the error of an output is above the tolerance."""
        lost = self.first_lost
        if lost is not None:
            raise TVMError(self._lost_text(lost))
        for d in self.outputs:
            if self.tolerance is not None and d.differs(self.tolerance):
                why = f". {self.first}" if self.first is not None else ""
                raise TVMError(
                    f"output {d.name} differs from {self.against} by {d.error:.2e} of its largest value, more than --tolerance"
                    f" {self.tolerance:g}{why}"
                )

    def _lost_text(self, first: Difference) -> str:
        at = (
            f"{first.lost} of {first.size} values are infinite or NaN at {self.precision}, but finite in {self.against}"
        )
        if self.precision == "fp32" or self.precision not in LIMITS:
            return f"{first.name} ({first.what}) loses values: {at}; it is the first layer that does"
        narrow = PRECISIONS.get(self.precision, self.precision)
        limit = f" {narrow} holds values up to {MOST[narrow]:.5g}." if narrow in MOST else ""
        other = " --precision bf16 has the range of float32; else keep" if narrow == "float16" else " Keep"
        return (
            f"{first.name} ({first.what}) overflows: {at}; it is the first layer that does.{limit}{other} the operator"
            " in float32 with relay.op.register_mixed_precision_conversion"
        )


def library_of(build: Build, library: Path) -> Any:
    """The executor of a library that is compared with its model. Raises TVMError if it takes an input that the model does not have."""
    executor = executor_of(load_library(library))
    mod, _ = imported_model(build.but(precision="fp32", calibrate=()))
    known = {p.name_hint for p in mod["main"].params}
    other = [info for name, info in input_table(executor).items() if name not in known]
    if other:
        raise TVMError(
            f"{library} takes the input {described(other[0].name, other[0].dtype, other[0].shape)}, which {build.model} does not have:"
            " it was compiled from another model"
        )
    return executor


class _Build:
    """A compiled model that runs whole and, if it has a library of kernels, kernel by kernel."""

    def __init__(self, executor: Any, library: Any = None) -> None:
        self.executor, self.library = executor, library

    def results(self) -> list[Array]:
        """The outputs of a run, in order. Several may have the same name."""
        run_checked(self.executor)
        return [self.executor.get_output(i).numpy() for i in range(self.executor.get_num_outputs())]

    def layers(self, inputs: Mapping[str, Array]) -> dict[str, tuple[str, Array]]:
        """Results by node of the model: (the last kernel that computes it, its result). A fused kernel is listed under its last node.
        Empty for a compiled library and for the virtual machine."""
        import tilewright as tvm
        from tilewright.contrib.debugger.debug_executor import GraphModuleDebug

        if self.library is None or hasattr(self.executor, "machine"):
            return {}
        graph = self.library.get_graph_json()
        debug = GraphModuleDebug(self.library["debug_create"]("default", tvm.cpu()), [tvm.cpu()], graph)
        for name, value in inputs.items():
            debug.set_input(name, carried(value))
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
    build: Build,
    feed: Feed,
    runtime: str | None = None,
    tolerance: float | None = None,
    samples: int = 1,
    library: Path | None = None,
) -> Comparison:
    """Compares a build with another runtime, or with the build in float32 (runtime "float32"), on the sets of inputs in the files or on
    `samples` random sets. `library`: a compiled library, whose outputs are compared instead of a build's."""
    sets = read_sets(feed.files)
    if samples > 1 and len(sets) > 1:
        raise TVMError(
            f"--samples {samples}: the files of --input hold {len(sets)} sets already; give one or the other"
        )
    sets = [sets[0]] * samples if samples > 1 else sets
    if runtime is None and build.precision == "fp32":
        usual = format_of(build.model).runtimes
        if not usual:
            raise TVMError(
                f"there is no runtime to compare {build.model} with; compare --precision bf16 or fp16 with float32"
            )
        runtime = usual[0]
    if runtime not in (None, "float32"):
        return RuntimeComparison(build, str(runtime), tolerance, library).compared(sets, feed)
    if library is None and build.precision == "fp32":
        others = "".join([f", or --reference {r}" for r in format_of(build.model).runtimes])
        raise TVMError(f"--precision fp32 is the reference itself; give --precision bf16 or fp16{others}")
    # A halo changes the shape of a result, and the kernels of both builds must have the same shapes.
    alike: Any = {"without": ("WriteHalos",), "static": "graph"}
    if library is not None:
        mine = _Build(library_of(build, library))
    else:
        compiled, _ = compile_model(build, **alike)
        mine = _Build(executor_of(compiled), compiled)
    plain, _ = compile_model(build.but(precision="fp32", calibrate=()), **alike)
    reference = _Build(executor_of(plain), plain)
    layers, outputs = LargestDifferences(), LargestDifferences()
    most = MOST.get(PRECISIONS.get(build.precision, ""), np.inf)
    for k, given in enumerate(sets):
        inputs = fill_inputs(mine.executor, given, feed.next(k), tell=True)
        fill_inputs(reference.executor, inputs)
        theirs = reference.layers(inputs)
        layers.add(
            [
                Difference(name, kernel, value, theirs[name][1], most)
                for name, (kernel, value) in mine.layers(inputs).items()
                # The integers of a quantised kernel stand for other numbers.
                if name in theirs
                and theirs[name][1].shape == value.shape
                and theirs[name][1].dtype.kind == "f"
                and value.dtype.kind not in "iu"
            ]
        )
        wanted = reference.results()
        names = output_names(mine.executor)
        outputs.add(
            [
                Difference(name, "output", value, fitting(w, value))
                for name, value, w in zip(names, mine.results(), wanted, strict=True)
            ]
        )
    name = library.name if library is not None else build.precision
    runs = {name: mine.executor.run, "fp32": reference.executor.run}
    return Comparison(
        name, "float32", layers.differences, outputs.differences, _times(runs), tolerance, inputs=len(sets)
    )


class LargestDifferences:
    """The largest difference of each name over several sets of inputs, in the order of the names' first appearance."""

    def __init__(self) -> None:
        self.found: dict[str, Difference] = {}

    def add(self, differences: Sequence[Difference]) -> None:
        """Adds the differences of one set of inputs. Layers with the same name are distinguished by their order."""
        count: dict[str, int] = {}
        for d in differences:
            count[d.name] = count.get(d.name, 0) + 1
            key = f"{d.name}\0{count[d.name]}"
            known = self.found.get(key)
            if known is None or (d.lost, d.error) > (known.lost, known.error):
                self.found[key] = d

    @property
    def differences(self) -> list[Difference]:
        """In order."""
        return list(self.found.values())


class RuntimeComparison:
    """A comparison with another runtime: of the whole model, and node by node.

    Results of nodes are made outputs, which prevents fusion across them, and are matched with the runtime's by node name. This finds a
    node that differs. If only the whole model differs, a fused kernel is wrong: then bisection over builds that end at one node, fused
    up to it like the whole model, finds the first wrong one.
    """

    def __init__(self, build: Build, runtime: str, tolerance: float | None, library: Path | None = None) -> None:
        self.build, self.model, self.precision, self.library = build, build.model, build.precision, library
        self.shapes = dict(build.shapes)
        self.target, self.opt_level = checked_target(build.target), build.opt_level
        self.format = format_of(build.model)
        if runtime not in (*self.format.runtimes, ORACLE):
            known = ", ".join([f"--reference {r}" for r in (*self.format.runtimes, ORACLE)])
            raise TVMError(
                f"{self.model} is a model of {self.format.title}, which has no reference {runtime}; its references: {known}"
            )
        if build.outputs or build.inputs_at:
            raise TVMError(
                f"--outputs and --inputs-at cut the model, but {runtime} runs it whole; leave them out, or use --reference float32"
            )
        self.runtime = runtime
        self.limit = LIMITS[self.precision] if tolerance is None else tolerance
        self.tolerance = self.limit if tolerance is None and self.precision == "fp32" else tolerance
        self.most = MOST.get(PRECISIONS.get(self.precision, ""), np.inf)

    def compared(self, sets: Sequence[Mapping[str, Array]], feed: Feed) -> Comparison:
        """Compares on these sets of inputs."""
        with progress("comparing") as report, shown_warnings():
            self.report: Report = report
            report(0, 0, "importing")
            if self.library is None or self.runtime == ORACLE:
                self.module, self.params = imported_model(self.build)
            self.reference: Reference
            if self.runtime == ORACLE:
                self.reference = OracleReference(self.module, self.params, self.opt_level, KEPT_BYTES, report)
            else:
                self.reference = self.format.reference(self.model, self.runtime, self.shapes)
            fixed = self.fixed_inputs()
            if self.library is not None:
                whole = _Build(library_of(self.build, self.library))
            else:
                executor_for(self.build, self.module)
                whole = self.built(self.module)
            names = output_names(whole.executor)
            outputs = LargestDifferences()
            self.sets: list[dict[str, Array]] = []
            for k, given in enumerate(sets):
                inputs = fill_inputs(whole.executor, given, feed.next(k), tell=True)
                self.sets.append({**inputs, **fixed})
                wanted, _ = self.reference.run(self.sets[-1])
                results = whole.results()
                if len(results) != len(wanted):
                    raise TVMError(
                        f"{self.model} has {len(results)} outputs here, but {len(wanted)} in {self.reference.title}"
                    )
                outputs.add(
                    [
                        Difference(n, "output", g, fitting(w, g), self.most, self.reference.rounding)
                        for n, g, w in zip(names, results, wanted, strict=True)
                    ]
                )
            found: list[tuple[Layer, list[Difference]]] = []
            first = None
            if self.library is None and self.precision != "int8":
                same = self.build.values or self.runtime == ORACLE
                written = None if same else self.format.as_written(self.model, self.shapes)
                self.module, self.params = written or (self.module, self.params)
                found = self.layers()
                first = self.first_differing(found)
                if first is None and any([d.differs(self.limit) for d in outputs.differences]):
                    first = self.first_when_fused([layer for layer, _ in found])
        layers = [d for _, group in found for d in group]
        unmatched = len(self.reference.nodes) - len(found) if found else 0
        return Comparison(
            self.precision if self.library is None else self.library.name,
            self.reference.title,
            layers,
            outputs.differences,
            {},
            self.tolerance,
            first,
            unmatched,
            len(sets),
        )

    def fixed_inputs(self) -> dict[str, Array]:
        """The values of --value, for the reference, which still takes them as inputs."""
        if not self.build.values:
            return {}
        declared = {i.name: i for i in self.format.survey(self.model, self.shapes).inputs}
        found = {}
        for name, text in self.build.values:
            value = fixed_value(name, text)
            if name in declared and declared[name].dtype:
                value = value.astype(numpy_dtype(declared[name].dtype))
                rank = len(declared[name].shape or ())
                value = value.reshape([1] * rank) if value.ndim < rank and value.size == 1 else value
            found[name] = value
        return found

    def built(self, module: Any) -> _Build:
        """Compiles a module like the model; for the virtual machine if it is dynamic."""
        executor = "graph" if is_static(module) and self.build.executor != "vm" else "vm"
        library = build_module(
            module, self.params, self.target, self.opt_level, self.precision, self.report, executor=executor
        )
        return _Build(executor_of(library), library)

    def layers(self) -> list[tuple[Layer, list[Difference]]]:
        """The nodes that both sides have, in order, with the largest differences over all sets of inputs."""
        found = []
        for part in parted(layers_of(self.module, self.reference.nodes)):
            build = self.built(keeping(self.module, [e for layer in part for e in layer.exprs], outputs=False))
            groups: dict[str, LargestDifferences] = {layer.name: LargestDifferences() for layer in part}
            for inputs in self.sets:
                values = iter(self.values(build, inputs))
                _, made = self.reference.run(inputs, [layer.name for layer in part])
                for layer in part:
                    mine = [next(values) for _ in layer.exprs]
                    groups[layer.name].add(self.differences(layer, mine, made.get(layer.name, [])))
            found += [(layer, groups[layer.name].differences) for layer in part if groups[layer.name].found]
        return found

    def values(self, build: _Build, inputs: Mapping[str, Array]) -> list[Array]:
        """The results of a build on those of the inputs that it takes."""
        table = input_table(build.executor)
        fill_inputs(build.executor, {n: v for n, v in inputs.items() if n in table})
        return build.results()

    def differences(self, layer: Layer, mine: Sequence[Array], theirs: Sequence[Array]) -> list[Difference]:
        """The differences of a node's results that have a counterpart."""
        pairs = matched(layer.exprs, theirs)
        names = [f"{layer.name}[{j}]" if len(theirs) > 1 else layer.name for _, j in pairs]
        what = self.reference.nodes[layer.name]
        return [
            Difference(name, what, mine[i], theirs[j], self.most, self.reference.rounding)
            for name, (i, j) in zip(names, pairs, strict=True)
        ]

    def first_differing(self, found: Sequence[tuple[Layer, list[Difference]]]) -> FirstDifference | None:
        """The first node that differs although all of its inputs agree; if there is none, the first node that differs."""
        errors = {layer.name: max([d.error for d in group]) for layer, group in found}
        wrong = {layer.name for layer, group in found if any([d.differs(self.limit) for d in group])}
        differing = [(layer, group) for layer, group in found if layer.name in wrong]
        clean = [(layer, group) for layer, group in differing if not wrong & set(layer.reads)]
        for layer, group in clean or differing:
            reads = {n: errors[n] for n in layer.reads if n in errors}
            worst = max(group, key=lambda d: (d.lost > 0, d.error))
            return FirstDifference(worst, reads, "all results of nodes compared")
        return None

    def first_when_fused(self, layers: Sequence[Layer]) -> FirstDifference | None:
        """The first node such that a build that ends there differs, by bisection."""
        seen: dict[int, list[Difference]] = {}

        def differs(k: int) -> bool:
            if k not in seen:
                layer = layers[k]
                build = self.built(keeping(self.module, layer.exprs, outputs=False))
                worst = LargestDifferences()
                for inputs in self.sets:
                    _, made = self.reference.run(inputs, [layer.name])
                    worst.add(self.differences(layer, self.values(build, inputs), made[layer.name]))
                seen[k] = worst.differences
            return any([d.differs(self.limit) for d in seen[k]])

        k = bisected(len(layers), differs)
        if k is None:
            return None
        worst = max(seen[k], key=lambda d: (d.lost > 0, d.error))
        reads = {layers[j].name: max([d.error for d in seen[j]]) for j in seen if layers[j].name in layers[k].reads}
        return FirstDifference(
            worst, reads, f"only when fused with what comes before it: bisection, {len(seen)} builds"
        )


def bisected(count: int, differs: Callable[[int], bool]) -> int | None:
    """The first of `count` positions that differs, if all after it differ too; None if the last does not."""
    if not count or not differs(count - 1):
        return None
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if differs(middle) else (middle + 1, high)
    return low


def parted(layers: Sequence[Layer]) -> list[list[Layer]]:
    """Consecutive groups of layers, each with results of at most KEPT_BYTES."""
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
    """An output of the reference in the shape of ours, if they have as many elements. Raises TVMError otherwise."""
    if reference.shape != found.shape and reference.size == found.size:
        return reference.reshape(found.shape)
    if reference.shape != found.shape:
        raise TVMError(f"an output has the shape {found.shape} here, and {reference.shape} in the reference")
    return reference


def _times(runs: Mapping[str, Any]) -> dict[str, float]:
    """Median milliseconds, in interleaved rounds."""
    rounds: dict[str, list[Array]] = {name: [] for name in runs}
    for _ in range(3):
        for name, run in runs.items():
            rounds[name].append(timed(run, MEASURING_SECONDS / 3))
    return {name: float(np.median(np.concatenate(parts))) for name, parts in rounds.items()}
