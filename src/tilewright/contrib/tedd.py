"""Pictures of schedules of tensor expressions, in the language of Graphviz: the flow of data, the tree of loops, and how axes came about.

`viz_schedule_tree(s, dot_file_path="tree.dot")` writes a file, which `dot -Tsvg` draws. show_svg: the picture is shown in a notebook,
where the packages graphviz and IPython are installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tilewright import te
from tilewright.support.errors import TVMError
from tilewright.te.schedule_stage import AttachType, Fuse, Split
from tilewright.tir.expr import IterVar
from tilewright.topi.utils import as_int

TVMDD_TABLE_BODY_WIDTH = 30
"""Characters of a line of a label."""
ITERVAR_TYPE_STRING_MAP = {
    IterVar.DataPar: ("kDataPar", "#FFFFFF"),
    IterVar.ThreadIndex: ("kThreadIndex", "#2980B9"),
    IterVar.CommReduce: ("kCommReduce", "#FAD7A0"),
    IterVar.Ordered: ("kOrdered", "#D35400"),
    IterVar.Opaque: ("kOpaque", "#ABB2B9"),
    IterVar.Unrolled: ("kUnrolled", "#D2B4DE"),
    IterVar.Vectorized: ("kVectorized", "#AED6F1"),
    IterVar.Parallelized: ("kParallelized", "#F5B7B1"),
    IterVar.Tensorized: ("kTensorized", "#A9DFBF"),
}
"""Kinds of axes: their names and colours."""
PALETTE = {index: colour for index, (_, colour) in ITERVAR_TYPE_STRING_MAP.items()}
PALETTE_SIZE = len(PALETTE)


class Digraph:
    """A directed graph as text of Graphviz."""

    def __init__(self, name: str, rankdir: str) -> None:
        self.name, self._lines = name, [f"  rankdir={rankdir};"]

    def node(self, name: str, label: str, **attributes: str) -> None:
        """Adds a node."""
        words = {"label": label, **attributes}
        self._lines.append(f"  {quoted(name)} [{', '.join([f'{k}={quoted(v)}' for k, v in words.items()])}];")

    def edge(self, start: str, end: str, **attributes: str) -> None:
        """Adds an edge."""
        words = f" [{', '.join([f'{k}={quoted(v)}' for k, v in attributes.items()])}]" if attributes else ""
        self._lines.append(f"  {quoted(start)} -> {quoted(end)}{words};")

    def cluster(self, name: str, label: str, inside: Iterable[str]) -> None:
        """Frames nodes."""
        held = " ".join([f"{quoted(n)};" for n in inside])
        self._lines.append(f"  subgraph {quoted(f'cluster_{name}')} {{ label={quoted(label)}; {held} }}")

    @property
    def source(self) -> str:
        """The text."""
        return "\n".join([f"digraph {quoted(self.name)} {{", *self._lines, "}"])


def quoted(text: str) -> str:
    """A text of Graphviz between quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def create_graph(name: str = "", rankdir: str = "BT") -> Digraph:
    """An empty graph. rankdir: the direction in which edges run, from bottom to top by default."""
    return Digraph(name, rankdir)


def linebrk(s: str, n: int) -> str:
    """A text in lines of n characters."""
    return "\n".join([s[k : k + n] for k in range(0, len(s), n)])


def dump_graph(
    dot_string: str, show_svg: bool = True, dot_file_path: str = "", output_dot_string: bool = False
) -> str | None:
    """Writes a graph into a file and shows it in a notebook, as asked for; returns it if `output_dot_string`. Raises TVMError where it
    cannot be shown."""
    if dot_file_path:
        with open(dot_file_path, "w", encoding="utf-8") as file:
            file.write(f"{dot_string}\n")
    if show_svg:
        try:
            from importlib import import_module

            source, display = import_module("graphviz").Source, import_module("IPython.display")
        except ModuleNotFoundError as error:
            raise TVMError(
                f"a graph is shown by the packages graphviz and IPython, but there is no {error.name}: pass show_svg=False and a"
                " dot_file_path, and draw the file by `dot -Tsvg`"
            ) from error
        display.display(display.SVG(source(dot_string).pipe(format="svg")))
    return dot_string if output_dot_string else None


def get_itervar_type_info(iter_type: int) -> tuple[str, str]:
    """(name, colour) of a kind of axes."""
    return ITERVAR_TYPE_STRING_MAP[iter_type]


def _extent(axis: IterVar, ranges: Mapping[IterVar, Any]) -> str:
    known = ranges.get(axis) or axis.dom
    return "" if known is None else f"range(min={known.min}, ext={known.extent})"


def _kind(stage: Any, axis: IterVar) -> int:
    mark = stage.iter_var_attrs.get(axis)
    if mark is not None and mark.bind_thread is not None:
        return IterVar.ThreadIndex
    return int(axis.iter_type if mark is None or mark.iter_type == IterVar.DataPar else mark.iter_type)


def extract_dom_for_viz(sch: te.Schedule, need_range: bool = True) -> dict[str, Any]:
    """A schedule as dictionaries and lists: its stages with their axes, relations, tensors, and where they are attached. need_range: with
    the ranges of all axes, as far as they follow."""
    ranges: Mapping[IterVar, Any] = {}
    if need_range:
        try:
            ranges = te.schedule.InferBound(sch.normalize())
        except (TVMError, ValueError):
            ranges = {}
    stages = []
    for place, stage in enumerate(sch.stages):
        axes = list(stage.all_iter_vars)
        index = {axis: k for k, axis in enumerate(axes)}
        relations: list[dict[str, Any]] = []
        for r in stage.relations:
            if isinstance(r, Split):
                relations.append(
                    {"type": "Split", "input": index[r.parent], "outputs": [index[r.outer], index[r.inner]]}
                )
            elif isinstance(r, Fuse):
                relations.append({"type": "Fuse", "inputs": [index[r.outer], index[r.inner]], "output": index[r.fused]})
        leaves = list(stage.leaf_iter_vars)
        parent, at = (stage.attach_stage, stage.attach_ivar) if stage.attach_type == AttachType.SCOPE else (None, None)
        stages.append(
            {
                "type": "stage",
                "name": stage.op.name,
                "op": type(stage.op).__name__,
                "attach_type": AttachType(stage.attach_type).name,
                "attach_to": [
                    sch.stages.index(parent),
                    list(parent.all_iter_vars).index(at),
                ]
                if parent is not None and at is not None
                else None,
                "scope": stage.scope,
                "inputs": [_place(sch, t) for t in stage.op.input_tensors],
                "shapes": [[str(as_int(d)) for d in stage.op.output(k).shape] for k in range(stage.op.num_outputs)],
                "all_itervars": [
                    {
                        "index": k,
                        "name": axis.var.name,
                        "kind": _kind(stage, axis),
                        "range": _extent(axis, ranges),
                        "thread": _thread(stage, axis),
                        "leaf": axis in leaves,
                    }
                    for k, axis in enumerate(axes)
                ],
                "leaf_itervars": [index[a] for a in leaves],
                "relations": relations,
                "index": place,
            }
        )
    return {"type": "schedule", "stages": stages}


def _thread(stage: Any, axis: IterVar) -> str:
    mark = stage.iter_var_attrs.get(axis)
    return str(mark.bind_thread.thread_tag) if mark is not None and mark.bind_thread is not None else ""


def _place(sch: te.Schedule, tensor: te.Tensor) -> int:
    """The number of the stage that computes a tensor; -1 if it has none."""
    stage = sch.stage_map.get(tensor.op)
    return -1 if stage is None else sch.stages.index(stage)


def dump_json(sch: te.Schedule, need_range: bool) -> str:
    """What `extract_dom_for_viz` returns, as JSON."""
    return json.dumps(extract_dom_for_viz(sch, need_range), indent=2)


def leaf_itervars(stage: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The axes of a stage that are loops, outermost first."""
    return [stage["all_itervars"][k] for k in stage["leaf_itervars"]]


def stage_label(stage: Mapping[str, Any]) -> str:
    """The label of a stage: its operation, name, storage scope and shapes."""
    shapes = ", ".join([f"[{', '.join(s)}]" for s in stage["shapes"]])
    scope = f"\nscope: {stage['scope']}" if stage["scope"] else ""
    return f"{stage['op']}\n{linebrk(stage['name'], TVMDD_TABLE_BODY_WIDTH)}{scope}\n{shapes}"


def itervar_label(itervar: Mapping[str, Any]) -> str:
    """The label of an axis: its name, kind, thread and range."""
    name, _ = get_itervar_type_info(itervar["kind"])
    lines = [f"{itervar['name']} ({name})", itervar["thread"], itervar["range"]]
    return "\n".join([line for line in lines if line])


def _stage_id(stage: Mapping[str, Any]) -> str:
    return f"stage_{stage['index']}"


def _axis_id(stage: Mapping[str, Any], itervar: Mapping[str, Any]) -> str:
    return f"axis_{stage['index']}_{itervar['index']}"


def _shown(draw: Callable[[te.Schedule], Digraph]) -> Callable[..., str | None]:
    """A function that draws a schedule, and shows, writes or returns the graph as `dump_graph` does."""

    def viz(
        sch: te.Schedule, show_svg: bool = False, dot_file_path: str = "", output_dot_string: bool = False
    ) -> str | None:
        return dump_graph(draw(sch).source, show_svg, dot_file_path, output_dot_string)

    viz.__name__, viz.__qualname__, viz.__doc__ = draw.__name__, draw.__name__, draw.__doc__
    return viz


@_shown
def viz_dataflow_graph(sch: te.Schedule) -> Digraph:
    """Draws which stages read what others compute."""
    graph = create_graph("Dataflow Graph")
    dom = extract_dom_for_viz(sch, need_range=False)
    for stage in dom["stages"]:
        graph.node(_stage_id(stage), stage_label(stage), shape="box")
        for source in stage["inputs"]:
            if source >= 0:
                graph.edge(f"stage_{source}", _stage_id(stage))
    return graph


@_shown
def viz_schedule_tree(sch: te.Schedule) -> Digraph:
    """Draws the loops of each stage, and below which loop it is computed. Inlined stages are dashed."""
    graph = create_graph("Schedule Tree", rankdir="TB")
    graph.node("root", "ROOT", shape="oval")
    dom = extract_dom_for_viz(sch)
    for stage in dom["stages"]:
        inlined = stage["attach_type"] == "INLINE"
        graph.node(_stage_id(stage), stage_label(stage), shape="box", style="dashed" if inlined else "solid")
        last = _stage_id(stage)
        for itervar in leaf_itervars(stage):
            _, colour = get_itervar_type_info(itervar["kind"])
            graph.node(_axis_id(stage, itervar), itervar_label(itervar), shape="box", style="filled", fillcolor=colour)
            graph.edge(last, _axis_id(stage, itervar))
            last = _axis_id(stage, itervar)
        if stage["attach_to"] is not None:
            place, axis = stage["attach_to"]
            graph.edge(f"axis_{place}_{axis}", _stage_id(stage), style="bold")
        elif not inlined:
            graph.edge("root", _stage_id(stage))
    return graph


@_shown
def viz_itervar_relationship_graph(sch: te.Schedule) -> Digraph:
    """Draws which axes of each stage were split or fused into which."""
    graph = create_graph("IterVar Relationship Graph", rankdir="TB")
    for stage in extract_dom_for_viz(sch)["stages"]:
        names = [_axis_id(stage, a) for a in stage["all_itervars"]]
        for name, itervar in zip(names, stage["all_itervars"], strict=True):
            _, colour = get_itervar_type_info(itervar["kind"])
            graph.node(name, itervar_label(itervar), shape="box", style="filled", fillcolor=colour)
        for k, relation in enumerate(stage["relations"]):
            node = f"relation_{stage['index']}_{k}"
            graph.node(node, relation["type"], shape="oval")
            for source in relation.get("inputs", [relation.get("input")]):
                graph.edge(names[source], node)
            for target in relation.get("outputs", [relation.get("output")]):
                graph.edge(node, names[target])
        if names:
            graph.cluster(str(stage["index"]), stage["name"], names)
    return graph
