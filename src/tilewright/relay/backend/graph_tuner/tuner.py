"""The tuners: which record each operator gets."""

from __future__ import annotations

import logging
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright import te, topi
from tilewright.autotvm.measure.measure import MeasureInput, create_measure_batch
from tilewright.autotvm.measure.measure_methods import LocalBuilder, LocalRunner, RPCRunner, measure_option
from tilewright.autotvm.record import write
from tilewright.autotvm.task.history import Pair, Records, pairs_of
from tilewright.autotvm.task.task import create, get_config, template
from tilewright.ir import IRModule, Op
from tilewright.ir.transform import PassContext, Sequential
from tilewright.relay.backend.compilation import pipeline
from tilewright.relay.backend.graph_tuner.elimination import solve_exactly
from tilewright.relay.backend.graph_tuner.layout_graph import PLAIN, Conversion, LayoutGraph
from tilewright.relay.backend.graph_tuner.pbqp import Choices, Pbqp, solve
from tilewright.relay.backend.targets import config_of
from tilewright.relay.expr import Function
from tilewright.relay.parameters import as_module
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.topi.template_stages import spread
from tilewright.topi.utils import get_const_int

logger = logging.getLogger("autotvm")

NCHW = "NCHW"
MOST_AT_ONCE = 16
"""Relayouts that are compiled before they are measured."""
Layouts = tuple[str, str]
"""The layouts of an operator's data and of its result."""


@template("layout_transform")
def layout_transform(*args: Any) -> Any:
    """The template of relayouts: of a tensor, from a layout, to another."""
    data, source, wanted = args
    made = topi.layout_transform(data, source, wanted)
    # It computes nothing: an element counts as an operation.
    get_config().add_flop(math.prod([get_const_int(d) for d in data.shape]))
    s = te.create_schedule(made.op)
    spread(s, made)
    return s, [data, made]


def get_infer_layout(task_name: str) -> Callable[[Any, Any], Layouts]:
    """A function of a workload and a configuration that returns the layouts of data and result, for a template."""
    if task_name in ("conv2d_NCHWc.x86", "depthwise_conv2d_NCHWc.x86"):
        return lambda _, config: (f"NCHW{config['tile_ic'].size[-1]}c", f"NCHW{config['tile_oc'].size[-1]}c")
    return lambda _, config: (NCHW, NCHW)


class BaseGraphTuner:
    """Chooses a record for each operator of a model.

    graph: the function of a model, or its module. input_shapes: shapes by the names of the inputs; other parameters are weights.
    records: a log, or pairs of inputs and results. target_ops: the operators that choose. max_sch_num: records that an operator chooses
    among: the fastest of each pair of layouts. dtype: of the inputs, one or by name. log_file, log_level, verbose: what is said goes to the
    log `autotvm`, and to the file too unless verbose is False and log_file None.

    Raises TVMError if an operator has no record.
    """

    def __init__(
        self,
        graph: Function | IRModule,
        input_shapes: Mapping[str, Sequence[int]],
        records: Records,
        target_ops: Sequence[Op | str],
        target: Target | str,
        max_sch_num: int = 20,
        dtype: str | Mapping[str, str] = "float32",
        verbose: bool = True,
        log_file: str | None = None,
        log_level: int = logging.DEBUG,
        name: str = "graph_tuner",
    ) -> None:
        self._target, self._name = Target(target) if isinstance(target, str) else target, name
        self._dtype = dtype if isinstance(dtype, str) else next(iter(dtype.values()), "float32")
        self._logger = logger.getChild(name)
        self._logger.setLevel(log_level if verbose else logging.WARNING)
        if log_file is not None:
            self._logger.addHandler(logging.FileHandler(log_file))
        ops = [Op.get(op) if isinstance(op, str) else op for op in target_ops]
        func = _prepared(_with_shapes(graph, input_shapes), self._target)
        self.graph = LayoutGraph(func, list(input_shapes), ops, self._target)
        self._records = self._candidates([*pairs_of(records)], max_sch_num)
        self._seconds: dict[tuple[Any, ...], float] = {}
        self._transforms: dict[str, Pair] = {}
        self._chosen: Choices | None = None

    def _candidates(self, pairs: Sequence[Pair], most: int) -> list[list[Pair]]:
        """The records that each operator chooses among."""
        by_workload: dict[Any, list[Pair]] = {}
        for pair in sorted([p for p in pairs if not p[1].error_no], key=lambda p: float(np.mean(p[1].costs))):
            by_workload.setdefault(pair[0].task.workload, []).append(pair)
        found = []
        for node in self.graph.nodes:
            every = sorted(
                [pair for workload in node.workloads for pair in by_workload.get(workload, [])],
                key=lambda p: float(np.mean(p[1].costs)),
            )
            fastest: dict[Layouts, Pair] = {}
            for pair in every:
                fastest.setdefault(_layouts(pair), pair)
            if not fastest:
                raise TVMError(
                    f"{self._name}: there is no record of {node.workloads[0]}; tune the tasks of the model first"
                    " (autotvm.task.extract_from_program)"
                )
            found.append([*fastest.values()][:most])
        return found

    def _wanted(self) -> dict[tuple[Any, ...], None]:
        """The relayouts that choices may need: (shape, from, to), shapes in blocks."""
        found: dict[tuple[Any, ...], None] = {}
        for conversion in self.graph.conversions:
            for have in dict.fromkeys(self._made(conversion.source)):
                for want in dict.fromkeys(self._read(conversion)):
                    if have != want:
                        found[conversion.shape, have, want] = None
        return found

    def _made(self, node: int) -> list[str]:
        """The layout of an operator's result by each of its records."""
        return [NCHW] if node == PLAIN else [_layouts(pair)[1] for pair in self._records[node]]

    def _read(self, conversion: Conversion) -> list[str]:
        """The layout in which a value is needed by each record of its reader."""
        if conversion.reader == PLAIN or conversion.like:
            return self._made(conversion.reader)
        return [_layouts(pair)[0] for pair in self._records[conversion.reader]]

    def benchmark_layout_transform(
        self,
        min_exec_num: int = 100,
        timeout: int = 10,
        use_rpc: bool = False,
        device_key: str | None = None,
        host: str = "127.0.0.1",
        port: int = 9190,
        n_parallel: int = 1,
        build_func: str = "default",
        layout_records: Records | None = None,
        target_host: Any = None,
        infer_layout: bool = False,
        runner: Any = None,
    ) -> None:
        """Measures the relayouts that choices may need.

        min_exec_num: calls of each measurement. use_rpc: on boards of a tracker (device_key, host, port, n_parallel). layout_records:
        earlier records; what they have is not measured. infer_layout: the seconds of relayouts that were not measured follow from the
        seconds of an element in those that were; only one is measured, if there is none. runner: measures instead of those.
        """
        del target_host
        for pair in pairs_of(layout_records) if layout_records is not None else ():
            if pair[0].task.name == "layout_transform" and not pair[1].error_no:
                self._transforms[str(pair[0].task.workload)] = pair
        tasks = {key: self._task(*key) for key in self._wanted()}
        missing = [k for k, task in tasks.items() if str(task.workload) not in self._transforms]
        if infer_layout and missing:
            missing = missing[:1] if not self._transforms else []
        if runner is None:
            runner = (
                RPCRunner(
                    device_key or "", host, port, n_parallel=n_parallel, number=min_exec_num, repeat=1, timeout=timeout
                )
                if use_rpc
                else LocalRunner(number=min_exec_num, repeat=1, timeout=timeout, cooldown_interval=0)
            )
        option = measure_option(builder=LocalBuilder(n_parallel=n_parallel, build_func=build_func), runner=runner)
        if missing:
            self._measure([tasks[key] for key in missing], option)
        per_element = [
            float(np.mean(result.costs)) / np.prod(given.task.args[0][1]) for given, result in self._transforms.values()
        ]
        for key, task in tasks.items():
            known = self._transforms.get(str(task.workload))
            if known is not None:
                self._seconds[key] = float(np.mean(known[1].costs))
            else:
                self._seconds[key] = float(np.mean(per_element) * np.prod(key[0]))
        self._logger.info("%d relayouts, %d of them measured now", len(tasks), len(missing))

    def _task(self, shape: tuple[int, ...], have: str, want: str) -> Any:
        return create("layout_transform", (("TENSOR", _in_blocks(shape, have), self._dtype), have, want), self._target)

    def _measure(self, tasks: Sequence[Any], option: dict[str, Any]) -> None:
        given = [MeasureInput(self._target, task, task.config_space.get(0)) for task in tasks]
        # Whatever the task, the programs of a target run in the same process.
        batch = create_measure_batch(tasks[0], option)
        try:
            results = [r for i in range(0, len(given), MOST_AT_ONCE) for r in batch(given[i : i + MOST_AT_ONCE])]
        finally:
            for part in option.values():
                if hasattr(part, "close"):
                    part.close()
        for pair in zip(given, results, strict=True):
            if pair[1].error_no:
                raise TVMError(
                    f"{self._name}: the relayout {pair[0].task.args} could not be measured: {pair[1].costs[0]}"
                )
            self._transforms[str(pair[0].task.workload)] = pair

    @property
    def layout_transform_perf_records(self) -> list[Pair]:
        """The records of relayouts."""
        return [*self._transforms.values()]

    def problem(self) -> Pbqp:
        """The choices: a variable for each operator, and a last one with a single choice, which is plain."""
        own = [[float(np.mean(result.costs)) for _, result in pairs] for pairs in self._records]
        made = Pbqp([*own, [0.0]])
        for conversion in self.graph.conversions:
            costs = np.array(
                [
                    [self._cost(conversion.shape, have, want) for want in self._read(conversion)]
                    for have in self._made(conversion.source)
                ]
            )
            source, reader = (len(own) if v == PLAIN else v for v in (conversion.source, conversion.reader))
            made.add_edge(source, reader, costs)
        return made

    def _cost(self, shape: tuple[int, ...], have: str, want: str) -> float:
        if have == want:
            return 0.0
        if (shape, have, want) not in self._seconds:
            raise TVMError(f"{self._name}: relayouts were not measured; call benchmark_layout_transform before run")
        return self._seconds[shape, have, want]

    def run(self, **kwargs: Any) -> None:
        """Chooses the records."""
        problem = self.problem()
        self._chosen = self._solved(problem, **kwargs)
        self._logger.info(
            "%d operators take %.3f ms with relayouts", len(self._records), 1e3 * problem.cost(self._chosen)
        )

    @abstractmethod
    def _solved(self, problem: Pbqp, **kwargs: Any) -> Choices:
        """A choice for each variable."""

    def get_optimal_records(self) -> list[Pair]:
        """The record of each operator, in the order in which a build asks for them."""
        if self._chosen is None:
            raise TVMError(f"{self._name}: nothing was chosen yet; call run first")
        return [pairs[self._chosen[i]] for i, pairs in enumerate(self._records)]

    def write_opt_sch2record_file(self, record_file: str = "graph_opt_schedule.log") -> None:
        """Writes the chosen records to a file, for `autotvm.apply_graph_best`."""
        chosen = self.get_optimal_records()
        Path(record_file).unlink(missing_ok=True)
        write(record_file, chosen)


class DPTuner(BaseGraphTuner):
    """The best records, by dynamic programming. Raises TVMError where the layouts of too many operators depend on each other at once."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"name": "DPTuner", **kwargs})

    def _solved(self, problem: Pbqp, **kwargs: Any) -> Choices:
        return solve_exactly(problem, **kwargs)


class PBQPTuner(BaseGraphTuner):
    """Good records, in time that grows with the number of operators: the best, unless more than two layouts depend on one at once."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"name": "PBQPTuner", **kwargs})

    def _solved(self, problem: Pbqp, **kwargs: Any) -> Choices:
        return solve(problem)


def _layouts(pair: Pair) -> Layouts:
    task = pair[0].task
    return get_infer_layout(task.name)(task.workload, pair[0].config)


def _in_blocks(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """A shape (N, C, H, W) in a layout."""
    n, c, h, w = shape
    block = int(layout[4:-1]) if layout != NCHW else 0
    return (n, c // block, h, w, block) if block else shape


def _with_shapes(graph: Function | IRModule, shapes: Mapping[str, Sequence[int]]) -> IRModule:
    """The module of a model, whose inputs must have the shapes that were given."""
    mod = as_module(graph)
    main = mod["main"]
    assert isinstance(main, Function)
    known = {p.name_hint: p for p in main.params}
    for name, shape in shapes.items():
        if name not in known:
            raise TVMError(f"the model has no input {name!r}; it has {', '.join(known)}")
        have: Any = known[name].type_annotation
        if have is not None and [int(d) for d in have.shape] != [int(d) for d in shape]:
            raise TVMError(f"the input {name!r} has the shape {have.shape}, but {tuple(shape)} was given")
    return mod


def _prepared(mod: IRModule, target: Target) -> Function:
    """The function of a model as a build looks for records: after the passes before ApplyTemplates."""
    with target, PassContext(opt_level=3):
        passes = pipeline(config_of(target)).passes
        before = passes[: [p.info.name for p in passes].index("ApplyTemplates")]
        func = Sequential(before, name="before templates")(mod)["main"]
    assert isinstance(func, Function)
    return func


__all__ = ["BaseGraphTuner", "DPTuner", "PBQPTuner", "get_infer_layout", "layout_transform"]
