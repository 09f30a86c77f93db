"""Converters of operators on graphs: wrappers, choices, loops, steps along an axis, attention with scores changed by a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.relay.cards.relations import known_equal
from tilewright.relay.expr import If, Tuple, TupleGetItem
from tilewright.relay.frontend.common.loops import MOST_UNROLLED, while_loop
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch import compatibility
from tilewright.relay.frontend.pytorch.dtypes import dtype_name
from tilewright.relay.frontend.pytorch.ops.linalg import batches, each_head
from tilewright.relay.frontend.pytorch.value import Argument, Meta, Result, TorchCall
from tilewright.support.errors import OpNotImplemented

if TYPE_CHECKING:
    import torch

    from tilewright.relay.frontend.pytorch.exported import ExportedImporter

EFFECTS = "with_effects"
"""An ordered call of another operator: (token, operator, its arguments) -> (token, its results)."""
WRITING = ("auto_functionalized", "auto_functionalized_v2")
"""Calls of operators that write their arguments, in the form of operators that return new values."""
MOST_CALLS = 2048
"""The largest number of calls for which steps along an axis are unrolled."""
HigherOrder = Callable[..., Any]
higher_order_converters: dict[str, HigherOrder] = {}


def _higher(*names: str) -> Callable[[HigherOrder], HigherOrder]:
    """Registers f(importer, call, arguments, keyword arguments, PyTorch's types of the results)."""

    def register(f: HigherOrder) -> HigherOrder:
        higher_order_converters.update(dict.fromkeys(names, f))
        return f

    return register


def higher_order(target: torch.fx.node.Target) -> str:
    """The name of an operator on graphs; "" for others."""
    import torch

    return str(target.name()) if isinstance(target, torch._ops.HigherOrderOperator) else ""


def called(node: torch.fx.Node) -> Any:
    """The target of a call. For a call with effects, the operator inside it."""
    return node.args[1] if higher_order(node.target) == EFFECTS else node.target


@_higher(
    "wrap_with_set_grad_enabled", "wrap", "hints_wrapper", "tag_activation_checkpoint", "invoke_subgraph", "strict_mode"
)
def _inlined(
    home: ExportedImporter, c: TorchCall, args: Sequence[Argument], kwargs: Mapping[str, Argument], meta: Meta
) -> Result:
    compatibility.WRAPPERS.seen(f"{c.target} {c.name}")
    at = next(k for k, a in enumerate(args) if hasattr(a, "graph"))
    rest = args[at + 1 :]
    if c.target == "invoke_subgraph":
        rest = rest[1:]
    return home.graph(args[at], rest[0] if c.target == "strict_mode" else rest)


@_higher(EFFECTS)
def _with_effects(
    home: ExportedImporter, c: TorchCall, args: Sequence[Argument], kwargs: Mapping[str, Argument], meta: Meta
) -> Result:
    token, target, *given = args
    name, overload = target._schema.name, target._schema.overload_name
    if home.is_ignored(name):
        return [token]
    found = home.convert(name, overload, c.name, target._schema, given, kwargs)
    return [token, *(found if isinstance(found, list) else [found])]


@_higher(*WRITING)
def _writing(
    home: ExportedImporter, c: TorchCall, args: Sequence[Argument], kwargs: Mapping[str, Argument], meta: Meta
) -> Result:
    raise OpNotImplemented(
        f"{args[0]._schema.name} writes its arguments; have the model call one that returns new tensors (mutates_args=())"
    )


def _results(home: ExportedImporter, c: TorchCall, values: Sequence[Value], meta: Meta) -> list[Any]:
    """Results with PyTorch's symbols: integers become sizes, extents get their symbols."""
    found: list[Any] = []
    metas: list[Any] = list(meta) if isinstance(meta, (list, tuple)) else [None] * len(values)
    for v, m in zip(values, metas, strict=True):
        if hasattr(m, "shape"):
            found.append(home.adopted(_shaped(home, c, v, m), m))
        elif hasattr(m, "node") and m.node.expr.is_Symbol:
            found.append(home.sizes.define(str(m.node.expr), c.cast(c.reshape(v, []), "int64")))
        else:
            found.append(v)
    return found


def _shaped(home: ExportedImporter, c: TorchCall, value: Value, meta: Meta) -> Value:
    """A value reshaped to PyTorch's extents, if they are known."""
    try:
        return c.reshape(value, home.sizes.shape(meta))
    except OpNotImplemented:
        return value


@_higher("cond")
def _choice(
    home: ExportedImporter, c: TorchCall, args: Sequence[Argument], kwargs: Mapping[str, Argument], meta: Meta
) -> Result:
    condition, first, second, operands = args
    if isinstance(condition, Value) and condition.is_number and condition.array is not None:
        condition = bool(condition.array.reshape(-1)[0])
    if not isinstance(condition, Value):
        return home.graph(first if condition else second, operands)
    ways = [[c.tensor(v) for v in home.graph(g, operands)] for g in (first, second)]
    flag = c.reshape(c.cast(condition, "bool"), [])
    yes, no = [Tuple(tuple([v.expr for v in way])) for way in ways]
    choice = If(flag.expr, yes, no)
    return _results(home, c, [Value(TupleGetItem(choice, k)) for k in range(len(ways[0]))], meta)


def _entered(home: ExportedImporter, c: TorchCall, graph: torch.fx.GraphModule, values: Sequence[Any]) -> list[Any]:
    """The arguments of a graph: tensors, and sizes for integer inputs."""
    places = [n for n in graph.graph.nodes if n.op == "placeholder"]
    found: list[Any] = []
    for place, v in zip(places, values, strict=True):
        m = place.meta.get("val")
        if isinstance(v, Value) and hasattr(m, "node") and not hasattr(m, "shape") and m.node.expr.is_Symbol:
            found.append(home.sizes.define(str(m.node.expr), c.cast(c.reshape(v, []), "int64")))
        else:
            found.append(v)
    return found


@_higher("while_loop")
def _while_loop(
    home: ExportedImporter, c: TorchCall, args: Sequence[Argument], kwargs: Mapping[str, Argument], meta: Meta
) -> Result:
    condition, body, carried, *rest = args
    extra = list(rest[0]) if rest else []
    start = [c.tensor(v) for v in carried]

    def going(now: list[Value]) -> Value:
        (flag,) = home.graph(condition, _entered(home, c, condition, [*now, *extra]))
        return c.tensor(flag)

    def step(now: list[Value]) -> list[Value]:
        return [c.tensor(v) for v in home.graph(body, _entered(home, c, body, [*now, *extra]))]

    return _results(home, c, while_loop(c, start, going, step), meta)


Row = Callable[[list[Value], list[Value]], list[Value]]
"""A step: (state, rows) -> state and values to gather."""


def _steps(
    home: ExportedImporter,
    c: TorchCall,
    graph: torch.fx.GraphModule,
    state: Sequence[Value],
    xs: Sequence[Value],
    row: Row,
    meta: Meta,
) -> list[Any]:
    """Steps along the first axis: unrolled if they are few, else a loop."""
    count = len(state)
    length = xs[0].shape[0]
    calls = sum([n.op == "call_function" for n in graph.graph.nodes])
    if isinstance(length, int) and 0 < length <= MOST_UNROLLED and length * calls <= MOST_CALLS:
        compatibility.UNROLLED.seen(c.name)
        parts, now, gathered = [c.steps(x, 0) for x in xs], list(state), []
        for k in range(length):
            made = row(now, [p[k] for p in parts])
            now = made[:count]
            gathered.append(made[count:])
        return [*now, *[c.call("stack", list(column), axis=0) for column in zip(*gathered, strict=True)]]
    extent, one = c.size(length), c.number(1, "int64")
    empty = []
    for m in meta[count:]:
        empty.append(c.full([0, *home.sizes.shape(m)[1:]], 0, dtype_name(m.dtype)))

    def step(now: list[Value]) -> list[Value]:
        k, inner, rows = now[0], now[1 : 1 + count], now[1 + count :]
        made = row(inner, [c.call("take", x, k, axis=0) for x in xs])
        grown = [
            c.call("concatenate", [r, c.call("expand_dims", v, axis=0)], axis=0)
            for r, v in zip(rows, made[count:], strict=True)
        ]
        return [c.call("add", k, one), *made[:count], *grown]

    start = [c.number(0, "int64"), *state, *empty]
    last = while_loop(c, start, lambda now: c.call("less", now[0], extent), step, "step")
    return _results(home, c, last[1:], meta)


@_higher("scan")
def _scan(
    home: ExportedImporter, c: TorchCall, args: Sequence[Argument], kwargs: Mapping[str, Argument], meta: Meta
) -> Result:
    graph, init, xs, *rest = args
    extra = list(rest[0]) if rest else []
    state = [c.tensor(v) for v in init]

    def row(now: list[Value], rows: list[Value]) -> list[Value]:
        made = [c.tensor(v) for v in home.graph(graph, _entered(home, c, graph, [*now, *rows, *extra]))]
        return [*[c.cast(v, s.dtype) for v, s in zip(made, state, strict=False)], *made[len(state) :]]

    return _steps(home, c, graph, state, xs, row, meta)


@_higher("map_impl")
def _map(
    home: ExportedImporter, c: TorchCall, args: Sequence[Argument], kwargs: Mapping[str, Argument], meta: Meta
) -> Result:
    graph, xs, extra = args

    def row(now: list[Value], rows: list[Value]) -> list[Value]:
        return [c.tensor(v) for v in home.graph(graph, _entered(home, c, graph, [*rows, *extra]))]

    return _steps(home, c, graph, [], xs, row, meta)


EACH = {
    "aten::index", "aten::where", "aten::full", "aten::scalar_tensor", "aten::new_ones", "aten::new_zeros", "aten::ones", "aten::zeros",
    "aten::_to_copy", "aten::to", "aten::clone", "aten::__and__", "aten::__or__", "aten::__xor__", "aten::__lshift__", "aten::__rshift__",
}  # fmt: skip
"""Elementwise operators on single numbers that lack PyTorch's mark of elementwise operators."""


def _elementwise(graph: torch.fx.GraphModule) -> bool:
    """Whether a graph on single numbers can run on tensors of them, element by element."""
    import torch

    calls = [n for n in graph.graph.nodes if n.op == "call_function"]
    return not any(
        [
            getattr(n.meta.get("val"), "shape", ()) != ()
            or torch.Tag.pointwise not in getattr(n.target, "tags", ())
            and getattr(getattr(n.target, "_schema", None), "name", "") not in EACH
            for n in calls
        ]
    )


def _of_places(home: ExportedImporter, c: TorchCall, graph: torch.fx.GraphModule, given: Sequence[Value]) -> Value:
    """A graph for one position, run for all positions at once."""
    if not _elementwise(graph):
        raise OpNotImplemented(
            "a function of its scores does more than arithmetic and look-ups of single numbers, or makes tensors"
        )
    (found,) = home.graph(graph, given, spread=True)
    return c.tensor(found)


@_higher("flex_attention")
def _flex_attention(
    home: ExportedImporter, c: TorchCall, args: Sequence[Argument], kwargs: Mapping[str, Argument], meta: Meta
) -> list[Value | None]:
    """Attention with a graph that changes the scores, and one that gives the mask; both take (batch, head, row, column)."""
    q, k, v, change, mask, scale, _, *buffers = args
    change_buffers, mask_buffers = [*buffers, (), ()][:2]
    if not known_equal(q.shape[1], k.shape[1]):
        k, v = (each_head(c, x, q.shape[1] // k.shape[1]) for x in (k, v))
    scores = c.call("multiply", batches(c, q, k, transpose_b=True), float(scale))
    extents = [*scores.shape]
    places = []
    for axis, n in enumerate(extents):
        row = (
            Value(array=np.arange(n))
            if isinstance(n, int)
            else c.call("arange", start=0, stop=n, step=1, dtype="int64")
        )
        places.append(c.cast(c.reshape(row, [-1 if j == axis else 1 for j in range(4)]), "int32"))
    scores = _of_places(home, c, change, [scores, *places, *change_buffers])
    kept = c.cast(_of_places(home, c, mask[-1], [*places, *mask_buffers]), "bool")
    scores = c.call("where", kept, scores, c.number(-np.inf, scores.dtype))
    shares = c.call("nn.softmax", scores, axis=3)
    # A row with all keys masked gets zeros.
    some = c.call("greater", c.call("max", scores, axis=(3,), keepdims=True), c.number(-np.inf, scores.dtype))
    shares = c.call("where", some, shares, c.number(0, shares.dtype))
    return [batches(c, shares, v), None, None]
