"""Results of a model's nodes in an imported program, found by the importer's spans and added to its outputs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from tilewright.ir import IRModule, TensorType
from tilewright.relay.expr import Call, Expr, Function, If, Let, Tuple, TupleGetItem
from tilewright.relay.functor import children, post_order
from tilewright.relay.texts import span_text
from tilewright.relay.typing.infer_type import infer_module

Array = np.ndarray[Any, Any]


class Layer:
    """A node of a model: `name`, its results (`exprs`) in order, and the names of the nodes that it reads."""

    __slots__ = ("exprs", "name", "reads")

    def __init__(self, name: str) -> None:
        self.name = name
        self.exprs: list[Expr] = []
        self.reads: dict[str, None] = {}

    @property
    def bytes(self) -> int:
        """Size of the results in bytes."""
        return sum([_bytes(e.checked_type) for e in self.exprs])


def layers_of(mod: IRModule, names: Collection[str]) -> list[Layer]:
    """The nodes of these names in the main function of a typed module, in an order of execution. Nodes inside branches,
    loops and functions are left out, since they do not have one value per run."""
    main: Any = mod["main"]
    order, conditions = _outside(main.body)
    node: dict[Expr, str] = {}
    origin: dict[Expr, tuple[str, ...]] = {}
    """The nodes that a value comes from: its own node, or for tuples and calls without a name, those of their operands."""
    layers: dict[str, Layer] = {}
    left: dict[str, dict[Expr, None]] = {}

    def read(e: Expr, reader: str) -> None:
        """Records that a node of this name reads `e`; "" stands for the outputs."""
        for v in e.fields if isinstance(e, Tuple) else (e,):
            if node.get(v, reader) != reader and isinstance(v.checked_type, TensorType):
                left[node[v]][v] = None

    for e in order:
        inputs = [x for x in children(e) if x in origin]
        name = (
            span_text(e.span)
            if isinstance(e, Call)
            else node.get(e.tuple_value, "")
            if isinstance(e, TupleGetItem)
            else ""
        )
        if name in names:
            node[e], origin[e] = name, (name,)
            layer = layers.setdefault(name, Layer(name))
            left.setdefault(name, {})
            for x in inputs:
                layer.reads.update(dict.fromkeys([n for n in origin[x] if n != name]))
        else:
            origin[e] = tuple(dict.fromkeys([n for x in inputs for n in origin[x]]))
        if not isinstance(e, Tuple):
            for x in inputs:
                read(x, node.get(e, ""))
    for e in (*conditions, main.body):
        read(e, "")
    at = {e: k for k, e in enumerate(order)}
    for name, layer in layers.items():
        layer.exprs = sorted(
            left[name], key=lambda e: (at[e.tuple_value], e.index) if isinstance(e, TupleGetItem) else (at[e], 0)
        )
    return [layer for layer in layers.values() if layer.exprs]


def _outside(body: Expr) -> tuple[list[Expr], list[Expr]]:
    """Expressions that run once per run of the program, operands first: the body without branches and loops, with their conditions."""
    conditions: dict[Expr, None] = {}

    def skipped(e: Expr) -> bool:
        if isinstance(e, If):
            conditions.setdefault(e.cond)
        return isinstance(e, (Function, If, Let))

    order = list(post_order(body, skipped))
    done = 0
    while done < len(conditions):
        order = [*post_order(list(conditions)[done], skipped), *order]
        done += 1
    return list(dict.fromkeys(order)), list(conditions)


def keeping(mod: IRModule, exprs: Sequence[Expr], outputs: bool = True) -> IRModule:
    """The module with these values of `main` as additional outputs after its own, or in their place."""
    main: Any = mod["main"]
    fields: list[Expr] = []
    if outputs:
        fields += main.body.fields if isinstance(main.body, Tuple) else [main.body]
    fields += exprs
    attrs = {k: v for k, v in dict(main.attrs or {}).items() if k not in ("output_tensor_names", "string_outputs")}
    body = fields[0] if len(fields) == 1 else Tuple(tuple(fields))
    return infer_module(mod.with_functions({mod.get_global_var("main"): Function(main.params, body, attrs=attrs)}))


def matched(exprs: Sequence[Expr], results: Sequence[Array]) -> list[tuple[int, int]]:
    """Pairs of equal results: (index in a node's values, index in the reference's results). They are matched by shape, and by order for
    results of a tuple. Ambiguous ones are left out."""
    forms = [_form(e) for e in exprs]
    given = [(r.shape, _is_float(r.dtype.name)) for r in results]
    if len(results) == 1:
        fitting = [k for k, f in enumerate(forms) if _fits(f, given[0])]
        return [(fitting[-1], 0)] if fitting else []
    pairs = []
    for form in dict.fromkeys(given):
        mine = [k for k, f in enumerate(forms) if _fits(f, form)]
        theirs = [k for k, g in enumerate(given) if g == form]
        if len(mine) == len(theirs) == 1:
            pairs.append((mine[0], theirs[0]))
            continue
        # All elements of one tuple are results, in order.
        parts = [exprs[k] for k in mine]
        whole = {p.tuple_value if isinstance(p, TupleGetItem) else p for p in parts}
        if parts and len(whole) == 1 and isinstance(parts[0], TupleGetItem):
            places = [p.index for p in parts if isinstance(p, TupleGetItem)]
            if len(results) == len(theirs) > max(places):
                pairs += [(k, theirs[place]) for k, place in zip(mine, places, strict=True)]
    return sorted(pairs)


def _form(e: Expr) -> tuple[tuple[int, ...], bool]:
    """The extents, and whether elements are floats: float32 values of the model may be integers here."""
    t = e.checked_type
    assert isinstance(t, TensorType)
    return tuple([int(getattr(d, "value", -1)) for d in t.shape]), _is_float(str(t.dtype))


def _fits(form: tuple[tuple[int, ...], bool], result: tuple[tuple[int, ...], bool]) -> bool:
    """Whether a result may have a form with dynamic extents (-1)."""
    same = len(form[0]) == len(result[0]) and all([d in (-1, n) for d, n in zip(form[0], result[0], strict=True)])
    return same and form[1] == result[1]


def _is_float(dtype: str) -> bool:
    return "float" in dtype


def _bytes(t: Any) -> int:
    return (
        int(np.prod([int(getattr(d, "value", 0)) for d in t.shape], dtype=object)) * int(t.dtype.bytes)
        if t.shape
        else t.dtype.bytes
    )
