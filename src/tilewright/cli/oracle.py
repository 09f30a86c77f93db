"""The interpreter as a reference: operators of an imported model as defined, without schedules, in plain Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.cli.models import build_module, executor_of
from tilewright.cli.screen import Report
from tilewright.cli.tensors import Array, fill_inputs, input_table, run_checked
from tilewright.ir import Op
from tilewright.relay.expr import Call
from tilewright.relay.frontend.common.formats import Reference
from tilewright.relay.frontend.common.module import is_static
from tilewright.relay.frontend.common.node_results import keeping, layers_of
from tilewright.relay.functor import post_order
from tilewright.relay.texts import span_text
from tilewright.relay.typing.infer_type import infer_module
from tilewright.target import Target

ORACLE = "interp"
"""The reference's name on the command line."""


class OracleReference(Reference):
    """An imported module in the interpreter. `most`: the largest size of node results that one run keeps, in bytes."""

    title = "the interpreter"

    def __init__(self, mod: Any, params: Any, opt_level: int, most: int, report: Report) -> None:
        self._module, self._params, self._opt_level, self._report = infer_module(mod), params, opt_level, report
        self.nodes: dict[str, str] = {}
        for e in post_order(self._module["main"].body):
            if isinstance(e, Call) and isinstance(e.op, Op) and (name := span_text(e.span)):
                self.nodes[name] = e.op.name
        self._layers = {layer.name: layer for layer in layers_of(self._module, self.nodes)}
        self.nodes = {name: op for name, op in self.nodes.items() if name in self._layers}
        # One run answers all later questions, because a run takes long.
        self._at_once = list(self._layers) if sum([x.bytes for x in self._layers.values()]) <= most else []
        self._builds: dict[tuple[str, ...], Any] = {}
        self._results: dict[tuple[int, tuple[str, ...]], tuple[list[Array], dict[str, list[Array]]]] = {}

    def run(self, inputs: Mapping[str, Array], nodes: Sequence[str] = ()) -> tuple[list[Array], dict[str, list[Array]]]:
        wanted = tuple(self._at_once or nodes)
        found = self._results.get((id(inputs), wanted))
        if found is None:
            found = self._results[id(inputs), wanted] = self._ran(inputs, wanted)
        return found[0], {name: found[1][name] for name in nodes}

    def _ran(self, inputs: Mapping[str, Array], names: tuple[str, ...]) -> tuple[list[Array], dict[str, list[Array]]]:
        layers = [self._layers[name] for name in names]
        if names not in self._builds:
            mod = keeping(self._module, [e for layer in layers for e in layer.exprs])
            executor = "graph" if is_static(mod) else "vm"
            made = build_module(
                mod, self._params, Target(ORACLE), self._opt_level, "fp32", self._report, executor=executor
            )
            self._builds[names] = made, executor_of(made)
        executor = self._builds[names][1]
        table = input_table(executor)
        fill_inputs(executor, {n: v for n, v in inputs.items() if n in table})
        self._report(0, 0, "interpreting")
        run_checked(executor)
        values = [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]
        own = len(values) - sum([len(layer.exprs) for layer in layers])
        rest = iter(values[own:])
        return values[:own], {layer.name: [next(rest) for _ in layer.exprs] for layer in layers}


__all__ = ["ORACLE", "OracleReference"]
