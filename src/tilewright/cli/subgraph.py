"""Cutting of an imported model: other outputs, and values turned into inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.relay.expr import Call, Expr, Function, Tuple, Var
from tilewright.relay.frontend.common.module import string_attrs
from tilewright.relay.frontend.common.node_results import Layer, layers_of
from tilewright.relay.functor import free_vars, post_order, substitute
from tilewright.relay.texts import span_text
from tilewright.relay.typing.infer_type import infer_module
from tilewright.support.errors import TVMError

NEAR = 6
"""Number of names that a message offers."""


def cut(mod: Any, form: Any, model: Path, outputs: Sequence[str], inputs_at: Sequence[str]) -> Any:
    """The module that computes `outputs` (each a name, or new=old), in which the values `inputs_at` are inputs. Names are of outputs,
    nodes, or tensors in the file.

    Inputs and weights that are not needed are removed. Raises TVMError if a name does not stand for one value of the program.
    """
    main: Any = mod["main"]
    results = dict(zip(_names_of(main), _fields(main.body), strict=True))
    wanted = dict([(n.split("=", 1) if "=" in n else [n, n]) for n in outputs]) or {n: n for n in results}
    found = _Values(mod, form, model, results)
    bodies = {new: found.value(old, "--outputs") for new, old in wanted.items()}
    table: dict[Any, Var] = {}
    for name in inputs_at:
        value = found.value(name, "--inputs-at")
        table[value] = Var(name, value.checked_type)
    fields = [substitute(b, table) for b in bodies.values()]
    body = fields[0] if len(fields) == 1 else Tuple(tuple(fields))
    left = set(free_vars(body))
    for p in table.values():
        if p not in left:
            raise TVMError(f"--inputs-at {p.name_hint}: no output needs it; leave it out, or give other --outputs")
    params = [p for p in (*main.params, *table.values()) if p in left]
    attrs = {**dict(main.attrs or {}), "output_tensor_names": tuple(bodies)}
    held = attrs.pop("string_outputs", ())
    attrs |= string_attrs(attrs.pop("string_inputs", ()), [new for new, old in wanted.items() if old in held])
    return infer_module(mod.with_functions({mod.get_global_var("main"): Function(params, body, attrs=attrs)}))


def _names_of(main: Any) -> list[str]:
    names = list((main.attrs or {}).get("output_tensor_names", ()))
    return [str(names[k]) if k < len(names) else f"output_{k}" for k in range(len(_fields(main.body)))]


def _fields(body: Expr) -> list[Expr]:
    return list(body.fields) if isinstance(body, Tuple) else [body]


class _Values:
    """The values of a program by their names in the model."""

    def __init__(self, mod: Any, form: Any, model: Path, results: Mapping[str, Expr]) -> None:
        self.form, self.model, self.results = form, model, results
        names = {span_text(e.span) for e in post_order(mod["main"].body) if isinstance(e, Call)}
        self.layers: dict[str, Layer] = {layer.name: layer for layer in layers_of(mod, names - {""})}

    def value(self, name: str, option: str) -> Expr:
        """The value of an output, a tensor or a node."""
        if name in self.results:
            return self.results[name]
        place = self.form.place_of(self.model, name)
        node, index = place or (name, 0)
        if node not in self.layers:
            raise TVMError(
                f"{option} {name}: the imported program has no value of that name; there are{self.nearest(name)}. Nodes that are"
                " constant, or inside a branch or loop, have no value"
            )
        values = self.layers[node].exprs
        if place is None and len(values) > 1:
            raise TVMError(f"{option} {name}: the node has {len(values)} results; name one tensor of the file")
        return values[index if index < len(values) else -1]

    def nearest(self, name: str) -> str:
        """Similar names, for a message."""
        import difflib

        known = [*self.results, *self.layers]
        near = difflib.get_close_matches(name, known, NEAR, 0.4) or known[:NEAR]
        rest = len(known) - len(near)
        return f" {', '.join(near)}" + (f" and {rest} more" if rest > 0 else "")
