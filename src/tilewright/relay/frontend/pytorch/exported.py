"""Exported programs to relay: the walk over the graph of torch.export."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.ir import IRModule
from tilewright.relay.cards.relations import Dim, shape_text
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch import compatibility
from tilewright.relay.frontend.pytorch.dtypes import dtype_name, tensor_array
from tilewright.relay.frontend.pytorch.guards import bounds, stated_rules
from tilewright.relay.frontend.pytorch.higher_order import called, higher_order, higher_order_converters
from tilewright.relay.frontend.pytorch.importer import Importer
from tilewright.relay.frontend.pytorch.value import Complex, Meta, TorchCall
from tilewright.support.errors import InternalError, ModelError, OpNotImplemented, TVMError

if TYPE_CHECKING:
    import sympy
    import torch

IGNORED = {
    "aten::_assert_async", "aten::_assert_scalar", "aten::_assert_tensor_metadata", "aten::sym_constrain_range",
    "aten::sym_constrain_range_for_size", "aten::_functional_assert_async", "aten::_functional_sym_constrain_range",
    "aten::_functional_sym_constrain_range_for_size", "aten::_functional_assert_scalar", "aten::sym_is_contiguous",
    "aten::_linalg_check_errors",
}  # fmt: skip
"""Checks that PyTorch inserted at export. A program checks its sizes itself."""
UNWRITTEN = {"aten::detach_", "aten::requires_grad_"}
"""Operators that write metadata of a tensor, but no elements."""
TRANSFORMS = "torch._functorch.predispatch"
"""Module of the functions that torch.func's transformations (vmap) leave in a program."""
ITEMS = ("aten::item", "aten::_local_scalar_dense")
CHECKS = {
    ("aten::_assert_scalar", ""),
    ("aten::_functional_assert_scalar", ""),
    ("aten::sym_constrain_range_for_size", ""),
}


def operator_name(target: torch.fx.node.Target) -> tuple[str, str] | None:
    """("aten::add", "Tensor") for an operator; None for Python functions and higher-order operators."""
    schema = getattr(target, "_schema", None)
    if schema is None or not hasattr(schema, "overload_name"):
        return None
    return schema.name, schema.overload_name


class ExportedImporter(Importer):
    """The import of one graph and its subgraphs."""

    def run(
        self, program: torch.export.ExportedProgram, infos: Sequence[tuple[str, Any]] | None
    ) -> tuple[IRModule, dict[str, np.ndarray]]:
        """Imports an ExportedProgram."""
        stated = program
        program = self.prepared(program)
        self.check_supported(program.graph_module)
        signature = program.graph_signature
        places = [n for n in program.graph.nodes if n.op == "placeholder"]
        given = self.user_inputs(places, signature, infos)
        for p in places:
            name, shape = given.get(p.name, ("", None))
            if shape is not None:
                self.pin(name, p.meta["val"], shape)
        self.solve_sizes(places)
        self.extents = extents_of(places)
        called = {p.name: given[p.name][0] if p.name in given else p.name for p in places}
        self.rules = stated_rules(stated, {place: self.name(name) for place, name in called.items()})
        self.ranges = {str(s): bounds(r) for s, r in program.range_constraints.items()}
        values = [self.placeholder(p, s, program, given) for p, s in zip(places, signature.input_specs, strict=True)]
        self.finish()
        results = self.graph(program.graph_module, values)
        self.finish()
        own: list[tuple[str, Any]] = []
        written: list[tuple[str, Any]] = []
        for spec, value in zip(signature.output_specs, results, strict=True):
            if value is None or spec.kind.name == "TOKEN":
                continue
            if spec.kind.name.endswith("MUTATION"):
                compatibility.STATE.seen(str(spec.target))
                written.append((str(spec.target), value))
            else:
                own.append((str(getattr(spec.arg, "name", "") or f"output{len(own)}"), value))
        # The buffers and inputs that the model writes come after its own outputs.
        return self.module([v for _, v in own + written], [n for n, _ in own + written])

    extents: Set[str] = frozenset()
    """Symbols that are extents of inputs."""
    ranges: Mapping[str, tuple[int | None, int | None]] = {}
    """The minimum and maximum that PyTorch states for symbols."""

    def solve_sizes(self, places: Sequence[Any]) -> None:
        """Gives `sizes` the extents of the inputs."""
        found = {}
        for p in places:
            for k, d in enumerate(getattr(p.meta.get("val"), "shape", ())):
                if hasattr(d, "node"):
                    found[f"{p.name}_{k}"] = d.node.expr
        self.sizes.solve(found)

    def prepared(self, program: torch.export.ExportedProgram) -> Any:
        """The program without in-place writes. PyTorch decomposes operators without a converter."""
        nodes = list(_calls(program.graph_module))
        writes = any([_writes(n.target) for n in nodes])
        unknown = any([not self.takes(called(n)) for n in nodes])
        if not writes and not unknown:
            return program
        for n in nodes:
            if _writes(n.target):
                compatibility.WRITES.seen(_title(n))
            if not self.takes(called(n)):
                compatibility.TAKEN_APART.seen(f"{n.target} {_title(n)}")
        try:
            return program.run_decompositions(self.decompositions())
        except Exception as error:
            self.check_supported(program.graph_module, self.decompositions())
            raise ModelError(
                f"{self.title}: PyTorch cannot decompose it ({type(error).__name__}: {first_line(error)})."
                " Derivatives inside of a model (torch.func.grad) are such: write them out"
            ) from error

    def takes(self, target: torch.fx.node.Target) -> bool:
        """Whether calls of this target have a converter."""
        named = operator_name(target)
        if named is None:
            order = higher_order(target)
            return order in higher_order_converters if order else getattr(target, "__module__", "") != TRANSFORMS
        return named[0] in IGNORED or self.known(*named)

    def decompositions(self) -> dict[Any, Any]:
        """PyTorch's own decompositions of operators without a converter."""
        from torch._decomp import decomposition_table
        from torch.export import default_decompositions

        table: dict[Any, Any] = dict(default_decompositions().items())
        for op, f in decomposition_table.items():
            table.setdefault(op, f)
        return {op: f for op, f in table.items() if hasattr(op, "_schema") and not self.takes(op)}

    def check_supported(self, module: torch.fx.GraphModule, apart: Container[Any] = ()) -> None:
        """Reports every operator without a converter, also in subgraphs, except those that PyTorch decomposes (`apart`)."""
        missing: dict[str, list[str]] = {}
        for node in _calls(module):
            target = called(node)
            named = operator_name(target)
            composed = bool(apart) and (named is None or target in apart or target._can_decompose())
            if not self.takes(target) and not composed:
                title = f"{named[0]}.{named[1]}".removesuffix(".") if named else f"higher_order::{higher_order(target)}"
                missing.setdefault(title, []).append(_title(node))
        self.missing(missing)

    def user_inputs(
        self, places: Sequence[Any], signature: Any, infos: Sequence[tuple[str, Any]] | None
    ) -> dict[str, tuple[str, Sequence[Any] | None]]:
        """Placeholder of a user's input -> (its name, the shape to pin)."""
        from torch.export.graph_signature import TensorArgument

        users = [
            p
            for p, s in zip(places, signature.input_specs, strict=True)
            if s.kind.name == "USER_INPUT" and isinstance(s.arg, TensorArgument)
        ]
        if not infos:
            return {p.name: (p.name, None) for p in users}
        if len(infos) != len(users):
            raise ModelError(
                f"{self.title}: input_infos has {len(infos)} entries, but the model has {len(users)} inputs:"
                f" {', '.join(p.name for p in users)}"
            )
        return {p.name: (name, shape) for p, (name, shape) in zip(users, infos, strict=True)}

    def placeholder(
        self, place: Any, spec: Any, program: torch.export.ExportedProgram, given: Mapping[str, tuple[str, Any]]
    ) -> Any:
        """The value of an input of the graph: a parameter, a constant, or an input of main."""
        kind = spec.kind.name
        if kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            held = program.state_dict.get(spec.target)
            held = program.constants.get(spec.target) if held is None else held
            try:
                if kind == "CONSTANT_TENSOR":
                    return self.constant(spec.target, held)
                return self.weight(spec.target, held, spec.target in program.graph_signature.buffers_to_mutate.values())
            except OpNotImplemented as error:
                self.problems.append(str(error))
                return None
        if kind != "USER_INPUT":
            return None
        fake = place.meta.get("val")
        if place.name not in given:
            if is_alone(fake, self.extents):
                return self.number_input(place.name, fake)
            return self.sizes.plain(fake) if fake is not None else getattr(spec.arg, "value", None)
        name, _ = given[place.name]
        if fake.dtype.is_complex:
            self.problems.append(
                f"the input {name!r} is complex: give its parts (torch.view_as_real), and have the model join them (torch.view_as_complex)"
            )
            return None
        return self.input(name, self.sizes.shape(fake), dtype_name(fake.dtype))

    def number_input(self, name: str, meta: Meta) -> Any:
        """An integer input that is not an extent of a tensor: an input without axes."""
        value = self.input(name, [], "int64")
        self.sizes.define(str(meta.node.expr), value)
        return self.sizes.plain(meta)

    def constant(self, name: str, tensor: torch.Tensor) -> Value | Complex:
        """A tensor of the model's code; small ones are known at import."""
        array = tensor_array(tensor)
        known = array.size <= 1 << 12 and array.dtype.kind != "c"
        return Value(array=array, name=name) if known else self.weight(name, tensor)

    def pin(self, name: str, fake: Any, shape: Sequence[Dim]) -> None:
        """Pins dynamic extents of an input to the requested numbers."""
        declared = list(fake.shape)
        text = shape_text([str(d) for d in declared])
        if len(shape) != len(declared):
            raise ModelError(
                f"{self.title}: the input {name!r} has the shape {text}, but input_infos gives it {shape_text(shape)}"
            )
        for k, (want, have) in enumerate(zip(shape, declared, strict=True)):
            if not isinstance(want, (int, np.integer)) or want < 0:
                continue
            if not isinstance(have, int):
                self.pin_size(name, k, have.node.expr, int(want))
            elif have != want:
                raise ModelError(
                    f"{self.title}: axis {k} of the input {name!r} was exported as {have}, but input_infos gives it {want}."
                    " Export it with dynamic_shapes there, or with an example of that size"
                )

    def pin_size(self, name: str, axis: int, e: sympy.Expr, want: int) -> None:
        """Pins the symbol in the expression of an extent, so that the extent becomes the requested number."""
        import sympy

        e = e.subs({s: self.sizes.pinned[str(s)] for s in e.free_symbols if str(s) in self.sizes.pinned})
        found = sympy.solve(e - want, *e.free_symbols) if len(e.free_symbols) == 1 else []
        whole = [v for v in found if v.is_Integer and v >= 0]
        if whole:
            self.sizes.pinned[str(next(iter(e.free_symbols)))] = int(whole[0])
        elif e != want:
            raise ModelError(
                f"{self.title}: input_infos gives axis {axis} of the input {name!r} the extent {want}, but the program was exported with"
                f" {e} there. Give a number that this can be"
            )

    def is_ignored(self, name: str) -> bool:
        """Whether an operator is only a check."""
        return name in IGNORED

    spread = False
    """Whether a graph on single numbers runs on tensors of them."""

    def graph(self, module: torch.fx.GraphModule, values: Sequence[Any], spread: bool = False) -> list[Any]:
        """The outputs of a graph for these values of its placeholders. `spread`: its numbers become tensors."""
        if spread:
            self.spread = True
            try:
                return self.graph(module, values)
            finally:
                self.spread = False
        env: dict[Any, Any] = {}
        rest = iter(values)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                env[node] = next(rest)
            elif node.op == "get_attr":
                env[node] = self.attribute(module, node.target)
            elif node.op == "call_function":
                env[node] = self.node(node, env)
            elif node.op == "output":
                found = _mapped(node.args[0], env)
                return list(found) if isinstance(found, (list, tuple)) else [found]
            else:
                raise ModelError(
                    f"{self.title}: {node.op} {node.target!r} stands in a graph that was not written by torch.export"
                )
        return []

    def attribute(self, module: torch.fx.GraphModule, target: str) -> Any:
        """A subgraph or tensor in an attribute of a graph module."""
        found = module
        for part in target.split("."):
            found = getattr(found, part)
        import torch

        return self.constant(target, found) if isinstance(found, torch.Tensor) else found

    def node(self, node: torch.fx.Node, env: Mapping[Any, Any]) -> Any:
        """Converts one call."""
        meta = node.meta.get("val")
        args, kwargs = _mapped(node.args, env), _mapped(node.kwargs, env)
        title = _title(node)
        named = operator_name(node.target)
        try:
            order = higher_order(node.target)
            if order:
                return higher_order_converters[order](self, TorchCall(order, title, self), args, kwargs, meta)
            if named is not None and named[0] in IGNORED:
                compatibility.CHECKS.seen(title)
                return None
            if any([a is _BROKEN for a in _flat([*args, *kwargs.values()])]):
                return _BROKEN
            if named is not None and named[0] in ITEMS and isinstance(args[0], Value):
                return self.item(TorchCall(str(node.target), node.name, self), args[0], meta)
            if named is not None and named[0] == "aten::sym_storage_offset":
                return 0
            if _is_size(meta):
                return self.sizes.plain(meta)
            if hasattr(meta, "node") and not hasattr(meta, "dtype"):
                if _only_checked(node):
                    return None
                return self.sizes.number(TorchCall(str(node.target), node.name, self), meta.node.expr)
            if named is None:
                return node.target(*args, **kwargs)
            result = self.convert(*named, node.name, node.target._schema, args, kwargs, lambda k: _read(node, k))
            if self.spread:
                return result
            result = self.adopted(result, meta)
            self.check(node, result, meta)
            return result
        except (
            TVMError, ValueError, KeyError, IndexError, TypeError, AttributeError, ArithmeticError, MemoryError,
        ) as error:  # fmt: skip
            self.problem(title, error, named[0] if named is not None else "")
        return _BROKEN

    def check(self, node: torch.fx.Node, result: Any, meta: Meta) -> None:
        """Raises an error if the type or shape of a converter's result differs from PyTorch's fake tensor."""
        results = result if isinstance(result, list) else [result]
        metas = meta if isinstance(meta, (list, tuple)) else [meta]
        for k, (r, m) in enumerate(zip(results, metas, strict=False)):
            if not isinstance(r, Value) or not hasattr(m, "dtype") or not _read(node, k):
                continue
            have, want = (r.dtype, r.shape), (dtype_name(m.dtype), self.sizes.shape(m))
            same = len(have[1]) == len(want[1]) and all(
                [
                    not isinstance(a, int) or not isinstance(b, int) or a == b
                    for a, b in zip(have[1], want[1], strict=True)
                ]
            )
            if have[0] != want[0] or not same:
                raise InternalError(
                    f"result {k} of {node.target} became {have[0]} {shape_text(have[1])}, but PyTorch says {want[0]} {shape_text(want[1])}"
                )

    def adopted(self, result: Any, meta: Meta) -> Any:
        """A result with PyTorch's symbols for its extents."""
        if isinstance(result, list) and isinstance(meta, (list, tuple)):
            return [self.adopted(r, m) for r, m in zip(result, meta, strict=False)]
        sized = isinstance(result, Value) and hasattr(meta, "shape")
        return self.sizes.adopt(result, meta.shape) if sized else result

    def item(self, c: TorchCall, x: Value, meta: Meta) -> Any:
        """The number in a tensor of one element. An unknown integer becomes a size."""
        if x.array is not None and x.is_number:
            number = x.array.reshape(-1)[0].item()
            if hasattr(meta, "node") and meta.node.expr.is_Symbol:
                self.sizes.pinned[str(meta.node.expr)] = number
            return number
        flat = c.reshape(x, [])
        if not _is_size(meta):
            if hasattr(meta, "node") and meta.node.expr.is_Symbol:
                self.sizes.from_data[str(meta.node.expr)] = flat
            return flat
        name = str(meta.node.expr)
        if name not in self.sizes.from_data:
            low, high = self.ranges.get(name, (None, None))
            number = c.cast(flat, "int64")
            if low is not None or high is not None:
                number = c.call(
                    "dyn.within", number, number, low=low, high=high, name=f"the number that {c.name} reads"
                )
            self.sizes.define(name, number, low is not None and low >= 0)
        return self.sizes.plain(meta)


def extents_of(places: Iterable[Any]) -> set[str]:
    """The symbols that are extents of the graph's input tensors."""
    shapes = [getattr(n.meta.get("val"), "shape", ()) for n in places]
    return {str(d.node.expr) for shape in shapes for d in shape if hasattr(d, "node")}


def is_alone(meta: Meta, extents: Set[str]) -> bool:
    """Whether an input is a symbol that is not an extent of a tensor."""
    import torch

    return isinstance(meta, torch.SymInt) and meta.node.expr.is_Symbol and str(meta.node.expr) not in extents


class _Broken:
    """The placeholder for the result of a call with a reported error."""


_BROKEN = _Broken()


def _writes(target: torch.fx.node.Target) -> bool:
    """Whether an operator writes elements of its arguments."""
    schema: torch.FunctionSchema | None = getattr(target, "_schema", None)
    return schema is not None and bool(getattr(schema, "is_mutable", False)) and schema.name not in UNWRITTEN


def _calls(module: torch.fx.GraphModule) -> Any:
    import torch

    for inner in module.modules():
        if isinstance(inner, torch.fx.GraphModule):
            yield from [n for n in inner.graph.nodes if n.op == "call_function"]


def _is_size(meta: Meta) -> bool:
    import torch

    return isinstance(meta, (torch.SymInt, bool, int)) and not isinstance(meta, torch.SymBool)


def _only_checked(node: torch.fx.Node) -> bool:
    """Whether only checks use a size that a node computes."""
    import torch

    return all(
        [
            operator_name(u.target) in CHECKS or isinstance(u.meta.get("val"), torch.SymBool) and _only_checked(u)
            for u in node.users
        ]
    )


def _read(node: torch.fx.Node, k: int) -> bool:
    """Whether result k of a node is used."""
    import operator

    return any([u.target is not operator.getitem or u.args[1] == k and bool(u.users) for u in node.users])


def first_line(error: Exception) -> str:
    """The first line of an error's text, shortened to 200 characters."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")[:200]


def _title(node: torch.fx.Node) -> str:
    """A node's name, and its line in the model."""
    lines = re.findall(r'File "([^"]+)", line (\d+)', str(node.meta.get("stack_trace")))
    return f"{node.name} ({lines[-1][0].rpartition('/')[2]}:{lines[-1][1]})" if lines else str(node.name)


def _mapped(x: Any, env: Mapping[Any, Any]) -> Any:
    import torch

    if isinstance(x, torch.fx.Node):
        return env[x]
    if isinstance(x, (list, tuple)):
        return [_mapped(v, env) for v in x]
    if isinstance(x, dict):
        return {k: _mapped(v, env) for k, v in x.items()}
    return x


def _flat(x: Any) -> list[Any]:
    if isinstance(x, (list, tuple)):
        return [leaf for part in x for leaf in _flat(part)]
    return [x]
