"""TorchScript to relay: the walk over the graph of a traced or scripted module, with control flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.ir import IntImm, IRModule, PrimExpr, Type
from tilewright.relay import loops
from tilewright.relay.cards.relations import Dim, known_equal, simplest
from tilewright.relay.expr import Call, Expr, If, Tuple, TupleGetItem, Var
from tilewright.relay.frontend.common.unsupported import Problem, UnsupportedModel, problems_of
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch import compatibility
from tilewright.relay.frontend.pytorch.aliasing import Slot, view_of
from tilewright.relay.frontend.pytorch.carried import loop_state
from tilewright.relay.frontend.pytorch.dtypes import CODES
from tilewright.relay.frontend.pytorch.importer import Custom, Importer
from tilewright.relay.frontend.pytorch.ops.levels import Quantized
from tilewright.relay.frontend.pytorch.script_graph import (
    attribute_paths,
    inlined,
    is_tensor,
    nodes_of,
    number_dtype,
    place_of,
)
from tilewright.relay.frontend.pytorch.script_words import CHANGES, CONTAINERS, CONVERSIONS, NUMBERS
from tilewright.relay.frontend.pytorch.value import Argument, Attribute, TorchCall
from tilewright.support.errors import InternalError, ModelError, OpNotImplemented, TVMError
from tilewright.tir import Any as AnyDim
from tilewright.tir import SizeVar

if TYPE_CHECKING:
    import torch

MOST_ROUNDS = 256
COMPARISONS = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip
"""Comparisons of sizes that only a run knows, as operators of relay."""
DROPPED = {"prim::Print", "aten::warn", "prim::profile"}
SCRIPTED = (
    "this is a scripted model where a traced one was needed: trace it with example inputs, torch.jit.trace(module, args), or export it,"
    " torch.export.export(module, args)"
)


def import_script(
    module: torch.jit.ScriptModule, infos: Sequence[tuple[str, Any, str]], custom: Custom | None, default_dtype: str, friendly: bool,
    path: str | None, keep_quantized: bool, scopes: bool = False,
) -> tuple[IRModule, dict[str, np.ndarray]]:  # fmt: skip
    """Imports a ScriptModule or ScriptFunction."""
    import torch

    traced = isinstance(module, (torch.jit.TopLevelTracedModule, torch.jit.TracedModule))
    importer = ScriptImporter("the TorchScript model", default_dtype, custom, friendly)
    importer.keep_quantized, importer.scopes = keep_quantized, scopes
    graph = inlined(module)
    if path:
        Path(path).write_text(str(graph))
    try:
        return importer.run(module, graph, infos)
    except OpNotImplemented as error:
        if traced or not importer.scripted:
            raise
        raise UnsupportedModel(str(error), problems_of(error), importer.value_advice() + SCRIPTED) from None


class ScriptImporter(Importer):
    """The import of one TorchScript graph. scripted: an unsupported operator was found that only scripted models have."""

    def __init__(self, title: str, default_dtype: str, custom: Custom | None, friendly: bool) -> None:
        super().__init__(title, default_dtype, custom, friendly)
        self.scripted = False
        self.scopes = False
        """Whether names of calls begin with the module that they are in."""
        self.level = 0
        self.schemas: dict[str, Any] = {}
        self.attributes: dict[str, Any] = {}
        """The tensors of a module by path, or the tensors that the script set in their place."""
        self.written: set[str] = set()
        """Names of attributes that the script writes."""
        self.numbers: list[str] = []
        """Names of inputs that are numbers known only at run time."""

    def run(
        self, module: torch.jit.ScriptModule, graph: torch.Graph, infos: Sequence[tuple[str, Any, str]]
    ) -> tuple[IRModule, dict[str, np.ndarray]]:
        """Imports the graph of a module."""
        self.check_supported(graph)
        self.written = {n for node in nodes_of(graph) for n in self.writes_of(node)}
        env: dict[str, Argument] = {}
        inputs = list(graph.inputs())
        if inputs and inputs[0].type().kind() == "ClassType":
            env[inputs.pop(0).debugName()] = Attribute(module, "")
        if len(infos) != len(inputs):
            names = ", ".join([v.debugName() for v in inputs])
            raise ModelError(
                f"{self.title}: input_infos has {len(infos)} entries, but the model has {len(inputs)} inputs: {names}"
            )
        self.need_tensors([(name, value) for value, (name, *_) in zip(inputs, infos, strict=True)])
        symbols: dict[str, SizeVar] = {}
        for value, (name, shape, dtype) in zip(inputs, infos, strict=True):
            env[value.debugName()] = self.given(value, name, shape, dtype, symbols)
        self.block(graph, env)
        outputs: list[Any] = []
        for o in graph.outputs():
            outputs += _flat(self.read(env[o.debugName()]))
        self.finish()
        results = [(f"output{k}", o) for k, o in enumerate(outputs) if o is not None]
        # The buffers that the model writes come after its own outputs.
        for path in attribute_paths(graph):
            held = self.attributes.get(path)
            if isinstance(held, Slot) and held.version:
                compatibility.STATE.seen(path)
                results.append((path, held.read()))
        return self.module([o for _, o in results], [n for n, _ in results])

    def given(self, value: Any, name: str, shape: Any, dtype: str, symbols: dict[str, SizeVar]) -> Any:
        """An input: a number with a given value, a number known only at run time (a tensor without axes), or a
        tensor."""
        number = number_dtype(value)
        if not isinstance(shape, Sequence):
            if number is None:
                raise ModelError(
                    f"{self.title}: input_infos gives the number {shape} for the input {name!r}, which is a tensor: give its shape"
                )
            return NUMBERS[{"int64": "Int", "float32": "Float", "bool": "Bool"}[number]](shape)
        if number is not None and shape:
            raise ModelError(
                f"{self.title}: input_infos gives the shape {tuple(shape)} for the input {name!r}, which is of type {value.type().str()}:"
                " give its value, or the shape () for a number that each run gives"
            )
        if number is not None:
            self.numbers.append(name)
        extents = [self.extent(d, name, k, symbols) for k, d in enumerate(shape)]
        return Slot(self.input(name, extents, number or dtype), 0)

    def value_advice(self) -> str:
        """The first advice if inputs are numbers known only at run time."""
        if not self.numbers:
            return ""
        first, names = self.numbers[0], ", ".join(self.numbers)
        return (
            f"what the script decides by {names} can be decided at import if their values are given, as in input_infos"
            f' ("{first}", 16000), or --value {first}=16000; otherwise, '
        )

    def need_tensors(self, inputs: Sequence[tuple[str, Any]]) -> None:
        """Raises UnsupportedModel with all inputs that are neither tensors nor numbers. Only scripts have such inputs."""
        for name, value in inputs:
            if not is_tensor(value) and number_dtype(value) is None:
                self.scripted = True
                kind = value.type().str()
                self.problems.append(
                    Problem(f"the input {name!r} is of type {kind}; tensors and numbers are supported", kind, [name])
                )
        self.finish()

    def writes_of(self, node: torch.Node) -> list[str]:
        """The names of attributes that a node writes."""
        if node.kind() == "prim::SetAttr":
            return [node.s("name")]
        schema = self.schema(node) if node.kind().startswith("aten::") else None
        if schema is None or not schema.is_mutable:
            return []
        source = next(iter(node.inputs())).node()
        return [source.s("name")] if source.kind() == "prim::GetAttr" else []

    def extent(self, d: Any, name: str, axis: int, symbols: dict[str, SizeVar]) -> Dim:
        """An input's extent; dynamic ones become size variables."""
        if isinstance(d, (int, np.integer)) and d >= 0:
            return int(d)
        if isinstance(d, PrimExpr) and not isinstance(d, (AnyDim, IntImm)):
            return d
        key = d if isinstance(d, str) else f"{name}_{axis}"
        return symbols.setdefault(key, SizeVar(key, "int64"))

    def check_supported(self, graph: torch.Graph) -> None:
        """Reports every operator without a converter, also in inner blocks."""
        missing: dict[str, list[str]] = {}
        for node in nodes_of(graph):
            name = node.kind()
            namespace, _, short = name.partition("::")
            overload = self.schema(node).overload_name if namespace != "prim" and self.schema(node) is not None else ""
            known = (
                namespace == "prim" and hasattr(self, f"_prim_{short}") or name in DROPPED or self.known(name, overload)
                or namespace == "aten" and short in NUMBERS or namespace == "aten" and self.composed(node) is not None
            )  # fmt: skip
            if not known:
                self.scripted = self.scripted or namespace == "prim"
                missing.setdefault(f"{name}.{overload}".removesuffix("."), []).append(place_of(node))
        self.missing(missing)

    def schema(self, node: torch.Node) -> Any:
        """The schema of an operator's call."""
        import torch

        text = node.schema()
        if text not in self.schemas:
            self.schemas[text] = None if text == "(no schema)" else torch._C.parse_schema(text)
        return self.schemas[text]

    def composed(self, node: torch.Node) -> Any:
        """The operator of a call, if PyTorch can decompose it, else None."""
        import torch
        from torch._decomp import decomposition_table

        schema = self.schema(node)
        try:
            packet = getattr(torch.ops.aten, node.kind().partition("::")[2].removesuffix("_"))
            found = getattr(packet, (schema.overload_name if schema is not None else "") or "default")
            # An operator that only TorchScript has (aten::device) is found here, but raises an error when it is used.
            return found if found in decomposition_table or found._can_decompose() else None
        except (AttributeError, RuntimeError):
            return None

    def block(self, block: Any, env: dict[str, Argument]) -> None:
        """Converts the nodes of a block."""
        for node in block.nodes():
            try:
                results = self.node(node, env)
            except InternalError:
                raise
            except OpNotImplemented as error:
                # Problems of an inner block are already recorded.
                if not self.problems:
                    self.problem(place_of(node), error, node.kind())
                self.finish()
            except (TVMError, ValueError, KeyError, IndexError, TypeError, AttributeError, ArithmeticError) as error:
                decided = self.decided_by_data(node, env)
                text = f"it needs {', '.join(decided)} as numbers at import, but the data decide them"
                self.problem(place_of(node), OpNotImplemented(text) if decided else error, node.kind())
                self.scripted = self.scripted or bool(decided)
                self.finish()
            names = [o.debugName() for o in node.outputs()]
            if names:
                env.update(zip(names, results if len(names) != 1 else [results], strict=True))

    def decided_by_data(self, node: torch.Node, env: dict[str, Argument]) -> list[str]:
        """The arguments of a call that are numbers in PyTorch, but depend on tensors here."""
        schema = self.schema(node) if node.kind().startswith("aten::") else None
        arguments = zip(schema.arguments, node.inputs(), strict=False) if schema is not None else ()
        return [
            repr(a.name)
            for a, i in arguments
            if "Tensor" not in str(a.type) and any([isinstance(v, Slot) for v in _flat(env.get(i.debugName()))])
        ]

    def read(self, x: Any) -> Any:
        """A value of the environment in the form for converters."""
        if isinstance(x, Slot):
            return x.read()
        if isinstance(x, (list, tuple)):
            return [self.read(v) for v in x]
        return {k: self.read(v) for k, v in x.items()} if isinstance(x, dict) else x

    def hold(self, x: Any) -> Any:
        """The result of a converter in the form of the environment."""
        if isinstance(x, (Value, Quantized)):
            return Slot(x, self.level)
        return [self.hold(v) for v in x] if isinstance(x, list) else x

    def node(self, node: torch.Node, env: dict[str, Argument]) -> Any:
        """Converts one node."""
        name = node.kind()
        namespace, _, short = name.partition("::")
        if name in DROPPED:
            compatibility.DROPPED.seen(place_of(node))
            return []
        if namespace == "prim":
            return getattr(self, f"_prim_{short}")(node, env)
        raw = [env[i.debugName()] for i in node.inputs()]
        args = [self.read(a) for a in raw]
        if self.is_number_work(short, args):
            return self.number_work(short, raw, args)
        schema = self.schema(node)
        scope = node.scopeName() if self.scopes else ""
        title = f"{scope}/{place_of(node)}" if scope else place_of(node)
        args = self.sizes_of_data(schema, self.tensors(schema, args, title))
        call_name = short.removesuffix("_") if short.endswith("_") and not short.startswith("__") else short
        writes = schema is not None and schema.is_mutable and isinstance(raw[0], Slot)
        result = self.hold(self.operator(name, schema, title, args, node))
        if writes:
            compatibility.WRITES.seen(title)
            old, new = raw[0].read(), result.read()
            if isinstance(new, Value):
                new = TorchCall(name, title, self).cast(new, old.dtype)
            raw[0].write(new, self.level)
            return raw[0]
        if (
            schema is not None
            and isinstance(result, Slot)
            and isinstance(raw[0], Slot)
            and schema.returns[0].alias_info is not None
        ):
            return self.view(call_name, title, raw[0], args, result)
        return result

    def tensors(self, schema: Any, args: list[Any], title: str) -> list[Any]:
        """The arguments, with tensors where an operator takes tensors of numbers that the import knows: sizes are numbers here."""
        if schema is None:
            return args
        call = TorchCall(title, title, self)

        def made(x: Any) -> Any:
            if isinstance(x, float):
                return call.number(x, "float64")
            return call.tensor(x) if isinstance(x, (bool, int, PrimExpr)) else x

        def turned(x: Any, kind: str) -> Any:
            if kind == "List[Tensor]" and isinstance(x, list):
                return [made(v) for v in x]
            return made(x) if alone and kind in ("Tensor", "Optional[Tensor]") else x

        # Beside a tensor a number stays a number: the tensor's type is then that of the result.
        alone = not any([isinstance(x, Value) for x in args])
        kinds = [str(a.type) for a in schema.arguments]
        kinds += [""] * (len(args) - len(kinds))
        return [turned(x, kind) for x, kind in zip(args, kinds, strict=False)]

    def sizes_of_data(self, schema: Any, args: list[Any]) -> list[Any]:
        """The arguments, with symbols for extents and bounds that the data decide: numbers of a script that are tensors without axes
        here."""
        if schema is None:
            return args

        def named(x: Any, kind: str) -> Any:
            if isinstance(x, list) and kind in ("List[int]", "Optional[List[int]]"):
                return [named(v, "size") for v in x]
            unknown = isinstance(x, Value) and x.array is None and not x.ndim
            bound = kind == "Optional[int]" and schema.name == "aten::slice"
            return self.sizes.number_of_data(x, kind == "size") if unknown and (bound or kind == "size") else x

        kinds = [str(a.type) for a in schema.arguments]
        return [named(x, kind) for x, kind in zip(args, [*kinds, *[""] * (len(args) - len(kinds))], strict=False)]

    def operator(
        self, name: str, schema: torch.FunctionSchema, title: str, args: Sequence[Argument], node: torch.Node
    ) -> Any:
        """The results of an operator; PyTorch decomposes it if it has no converter."""
        overload = schema.overload_name if schema is not None else ""
        if self.known(name, overload):
            uses = [bool(o.uses()) for o in node.outputs()]
            return self.convert(name, overload, title, schema, args, {}, lambda k: k < len(uses) and uses[k])
        compatibility.TAKEN_APART.seen(title)
        return self.taken_apart(self.composed(node), schema, args)

    def taken_apart(self, target: Any, schema: torch.FunctionSchema, args: Sequence[Argument]) -> Any:
        """The results of an operator by PyTorch's own decomposition of it."""
        import torch
        from torch.fx.experimental.proxy_tensor import make_fx
        from torch.utils import _pytree

        from tilewright.relay.frontend.pytorch.dtypes import torch_dtype
        from tilewright.relay.frontend.pytorch.exported import ExportedImporter

        given = [a for a in _flat(list(args)) if isinstance(a, Value)]
        call = TorchCall(str(target), str(target), self)
        examples = [
            torch.empty(call.static(v.shape, "the shape of its input"), dtype=torch_dtype(v.dtype), device="meta")
            for v in given
        ]
        named = {a.name: v for a, v in zip(schema.arguments, args, strict=False)}
        keyword = {a.name for a in schema.arguments if a.kwarg_only}

        def run(*tensors: Any) -> Any:
            rest = iter(tensors)
            filled = _pytree.tree_map(lambda v: next(rest) if isinstance(v, Value) else v, named)
            positional = [v for k, v in filled.items() if k not in keyword]
            return target(
                *positional,
                **{k: v for k, v in filled.items() if k in keyword and k not in ("device", "layout", "pin_memory")},
            )

        inner = ExportedImporter(self.title, self.default_dtype, self.custom, self.friendly)
        inner.params, inner.weights, inner.inputs, inner.sizes = self.params, self.weights, self.inputs, self.sizes
        graph = make_fx(run, decomposition_table=inner.decompositions())(*examples)
        inner.check_supported(graph)
        results = inner.graph(graph, given)
        inner.finish()
        return results[0] if len(results) == 1 else results

    def view(self, name: str, title: str, base: Slot, args: list[Argument], result: Slot) -> Slot:
        """A result that shares its elements with the first argument."""

        def call(short: str, *given: object) -> Value:
            made: Value = self.convert(f"aten::{short}", _overload(short), title, None, given, {})
            return made

        ways = view_of(name, args, call)
        get, put = ways if ways is not None else (lambda v: result.read(), None)
        return Slot(result.read(), self.level, base, get, put)

    def is_number_work(self, short: str, args: Sequence[Argument]) -> bool:
        """Whether a call is on numbers, lists and strings only."""
        if short not in NUMBERS:
            return False
        if short == "len":
            return True
        if short in CONTAINERS:
            return not isinstance(args[0], (Value, Quantized)) or short in ("__is__", "__isnot__")
        return short in CONVERSIONS or not any([isinstance(a, (Value, Quantized)) for a in args])

    def number_work(self, short: str, raw: Sequence[Any], args: Sequence[Argument]) -> Any:
        """Evaluates an operator of a script on numbers, lists and strings."""
        if short in CONVERSIONS:
            return self.as_number(short, args[0])
        if short == "len" and isinstance(args[0], (Value, Quantized)):
            return args[0].shape[0]
        if short in CHANGES and self.level:
            self.scripted = True
            raise OpNotImplemented("it changes a list in a branch or loop that is decided at run time")
        given = list(raw) if short in CONTAINERS or short == "copy" else list(args)
        if any([isinstance(a, PrimExpr) for a in args]):
            return self.size_work(short, args)
        result = NUMBERS[short](*given)
        return raw[0] if short in ("append", "extend", "insert", "_set_item") else result

    def as_number(self, short: str, x: Any) -> Any:
        """The number in a tensor of one element if it is known, else a tensor without axes."""
        if not isinstance(x, Value):
            return x if isinstance(x, PrimExpr) else NUMBERS[short](x)
        known = self.params.get(x.expr.name_hint) if isinstance(x.expr, Var) else x.array if x.is_number else None
        if known is not None and known.size == 1:
            return NUMBERS[short](known.reshape(-1)[0].item())
        call = TorchCall(short, short, self)
        flat = call.reshape(x, [])
        wanted = {"Int": "int64", "IntImplicit": "int64", "Bool": "bool"}.get(short)
        return Slot(call.cast(flat, wanted) if wanted else flat, self.level)

    def size_work(self, short: str, args: Sequence[Argument]) -> Any:
        """Arithmetic and comparisons of sizes."""
        if short in ("eq", "ne"):
            same = known_equal(*args)
            if same or isinstance(simplest(args[0] - args[1]), IntImm):
                return same == (short == "eq")
        elif short in ("lt", "le", "gt", "ge"):
            away = simplest(args[0] - args[1])
            if isinstance(away, (int, IntImm)):
                return NUMBERS[short](int(away), 0)
        elif short in ("add", "sub", "mul", "floordiv", "remainder", "neg"):
            found = simplest(NUMBERS[short](*args))
            return int(found) if isinstance(found, IntImm) else found
        if short in COMPARISONS:
            call = TorchCall(short, short, self)
            return Slot(call.call(COMPARISONS[short], *[call.tensor(a) for a in args]), self.level)
        self.scripted = True
        raise OpNotImplemented(
            f"it computes {short} of a dynamic dimension ({', '.join(map(str, args))}). Pin it in input_infos"
        )

    # Nodes of the TorchScript language

    def _prim_Constant(self, node: torch.Node, env: dict[str, Argument]) -> Any:
        import torch

        value = (
            node.output().toIValue() if node.outputsSize() and node.output().type().kind() != "FunctionType" else None
        )
        return Slot(self.literal(node.output().debugName(), value), 0) if isinstance(value, torch.Tensor) else value

    def literal(self, name: str, tensor: torch.Tensor) -> Value:
        """A tensor in the script's text."""
        from tilewright.relay.frontend.pytorch.dtypes import tensor_array

        return Value(array=tensor_array(tensor), name=name)

    def _prim_GetAttr(self, node: torch.Node, env: dict[str, Argument]) -> Any:
        import torch

        holder = env[node.input().debugName()]
        name = node.s("name")
        path = f"{holder.path}.{name}" if holder.path else name
        if path in self.attributes:
            return self.attributes[path]
        found = getattr(holder.module, name)
        if isinstance(found, torch.Tensor):
            # One slot for all readers, so later ones see writes.
            return self.attributes.setdefault(path, Slot(self.weight(path, found, name in self.written), 0))
        if isinstance(found, (list, tuple)) and found and isinstance(found[0], torch.Tensor):
            # The weights of recurrent layers, under their own names.
            names = {t.data_ptr(): n for n, t in holder.module.named_parameters(recurse=False)}
            keys = [names.get(t.data_ptr(), f"{name}.{k}") for k, t in enumerate(found)]
            return [
                Slot(self.weight(f"{holder.path}.{key}".removeprefix("."), t), 0)
                for key, t in zip(keys, found, strict=True)
            ]
        return Attribute(found, path) if isinstance(found, (torch.nn.Module, torch._C.ScriptObject)) else found

    def _prim_SetAttr(self, node: torch.Node, env: dict[str, Argument]) -> list[Slot]:
        target, given = node.inputs()
        holder, value = env[target.debugName()], env[given.debugName()]
        path = f"{holder.path}.{node.s('name')}" if holder.path else node.s("name")
        if isinstance(value, Slot):
            slot = self.attributes.setdefault(
                path, Slot(self.weight(path, getattr(holder.module, node.s("name")), True), 0)
            )
            slot.write(value.read(), self.level)
            return []
        if self.level:
            self.scripted = True
            raise OpNotImplemented("it changes an attribute in a branch or loop that is decided at run time")
        self.attributes[path] = value
        return []

    def _prim_ListConstruct(self, node: torch.Node, env: dict[str, Argument]) -> Any:
        return [env[i.debugName()] for i in node.inputs()]

    _prim_TupleConstruct = _prim_ListConstruct

    def _prim_DictConstruct(self, node: torch.Node, env: dict[str, Argument]) -> Any:
        given = [env[i.debugName()] for i in node.inputs()]
        return dict(zip(given[::2], given[1::2], strict=True))

    def _prim_ListUnpack(self, node: torch.Node, env: dict[str, Argument]) -> Any:
        values = list(env[node.input().debugName()])
        return values[0] if node.outputsSize() == 1 else values

    _prim_TupleUnpack = _prim_ListUnpack

    def _prim_TupleIndex(self, node: torch.Node, env: dict[str, Argument]) -> Any:
        values, at = (env[i.debugName()] for i in node.inputs())
        return values[at]

    def _prim_NumToTensor(self, node: torch.Node, env: dict[str, Argument]) -> Any:
        value = self.read(env[node.input().debugName()])
        return value if isinstance(value, (int, float, PrimExpr)) else self.hold(value)

    def _prim_dtype(self, node: torch.Node, env: dict[str, Argument]) -> int:
        return CODES.index(self.read(env[node.input().debugName()]).dtype)

    def _prim_device(self, node: torch.Node, env: dict[str, Argument]) -> None:
        return None

    _prim_layout = _prim_device

    def _prim_is_cuda(self, node: torch.Node, env: dict[str, Argument]) -> bool:
        return False

    _prim_requires_grad = _prim_is_nested = _prim_is_quantized = _prim_is_mkldnn = _prim_is_cuda

    def _prim_shape(self, node: torch.Node, env: dict[str, Argument]) -> Any:
        return list(self.read(env[node.input().debugName()]).shape)

    def _prim_data(self, node: torch.Node, env: dict[str, Argument]) -> Any:
        return env[node.input().debugName()]

    _prim_unchecked_cast = _prim_unchecked_unwrap_optional = _prim_data

    def _prim_Uninitialized(self, node: torch.Node, env: dict[str, Argument]) -> None:
        return None

    def _prim_RaiseException(self, node: torch.Node, env: dict[str, Argument]) -> list[Slot]:
        text = env[next(iter(node.inputs())).debugName()]
        if self.level:
            return []
        raise ModelError(f"with these inputs the script raises an error: {text}")

    def _prim_min(self, node: torch.Node, env: dict[str, Argument]) -> Any:
        args = [self.read(env[i.debugName()]) for i in node.inputs()]
        return (min if node.kind() == "prim::min" else max)(*args)

    _prim_max = _prim_min

    def _prim_If(self, node: torch.Node, env: dict[str, Argument]) -> Any:
        condition = self.read(env[node.input().debugName()])
        first, second = node.blocks()
        if isinstance(condition, Value) and condition.array is not None:
            condition = bool(condition.array.reshape(-1)[0])
        if not isinstance(condition, Value):
            compatibility.DECIDED.seen(place_of(node))
            chosen = first if condition else second
            self.block(chosen, env)
            results = [env[o.debugName()] for o in chosen.outputs()]
            return results[0] if len(results) == 1 else results
        call = TorchCall("prim::If", place_of(node), self)
        ways = []
        for block in (first, second):
            ways.append([call.tensor(v) for v in self.inner(block, dict(env), "the results of its branches")])
        flag = call.reshape(call.cast(condition, "bool"), [])
        yes, no = [Tuple(tuple([v.expr for v in way])) for way in ways]
        choice = If(flag.expr, yes, no)
        held = [Slot(Value(TupleGetItem(choice, k)), self.level) for k in range(len(ways[0]))]
        return held[0] if len(held) == 1 else held

    def inner(self, block: Any, env: dict[str, Argument], what: str) -> list[Any]:
        """The outputs of a block that runs conditionally."""
        self.level += 1
        try:
            self.block(block, env)
            results = [self.read(env[o.debugName()]) for o in block.outputs()]
        finally:
            self.level -= 1
        for r in results:
            if not isinstance(r, (Value, int, float, bool, PrimExpr)):
                self.scripted = True
                raise OpNotImplemented(f"{what} must be tensors or numbers, but one is {type(r).__name__}")
        return results

    def _prim_Loop(self, node: torch.Node, env: dict[str, Argument]) -> Argument:
        rounds, going, *carried = [env[i.debugName()] for i in node.inputs()]
        (body,) = node.blocks()
        rounds, going = self.read(rounds), self.read(going)
        if isinstance(rounds, int) and rounds <= MOST_ROUNDS and isinstance(going, bool):
            unrolled = self.unrolled(body, env, rounds, going, carried)
            if unrolled is not None:
                compatibility.UNROLLED.seen(place_of(node))
                return unrolled[0] if len(unrolled) == 1 else unrolled
        results = self.looped(node, body, env, rounds, going, [self.read(v) for v in carried])
        return results[0] if len(results) == 1 else results

    def unrolled(
        self, body: Any, env: dict[str, Argument], rounds: int, going: bool, carried: list[Any]
    ) -> list[Dim] | None:
        """The rounds of a loop, unrolled; None if each round decides whether to continue."""
        names = [i.debugName() for i in body.inputs()]
        if next(iter(body.outputs())).node().kind() != "prim::Constant":
            return None
        for k in range(rounds if going else 0):
            env.update(zip(names, [k, *carried], strict=True))
            self.block(body, env)
            _, *carried = [env[o.debugName()] for o in body.outputs()]
        return carried

    def looped(
        self, node: torch.Node, body: Any, env: dict[str, Argument], rounds: Any, going: Any, carried: list[Any]
    ) -> list[Slot]:
        """A loop as a function that calls itself. Its state: the round, whether to continue, and the carried values."""
        call = TorchCall("prim::Loop", place_of(node), self)
        for v in carried:
            if not isinstance(v, (Value, int, float, bool, PrimExpr)):
                self.scripted = True
                raise OpNotImplemented(
                    f"it carries a {type(v).__name__} through a loop that is decided at run time; tensors and numbers are supported"
                )
        start = [call.number(0, "int64"), call.cast(call.tensor(going), "bool"), *[call.tensor(v) for v in carried]]
        last = call.cast(call.tensor(rounds), "int64")
        names = [i.debugName() for i in body.inputs()]

        def round_of(now: Sequence[Expr]) -> tuple[Any, list[Any]]:
            scope = dict(env)
            given = [self.sizes.sized(Value(v)) for v in [now[0], *now[2:]]]
            scope.update(zip(names, [Slot(v, self.level + 1) for v in given], strict=True))
            flag, *new = self.inner(body, scope, "what a loop carries")
            return flag, new

        def carried_after(now: Sequence[Expr]) -> list[Type]:
            return [call.tensor(v).type for v in round_of(now)[1]]

        state = loop_state([v.type for v in start], carried_after)

        def more(*now: Expr) -> Expr:
            below = call.call("less", Value(now[0]), last)
            return call.call("logical_and", below, call.reshape(Value(now[1]), [])).expr

        def step(*now: Expr) -> list[Expr]:
            flag, new = round_of(now)
            kept = [call.cast(call.tensor(v), str(s.dtype)) for v, s in zip(new, start[2:], strict=True)]
            following = call.call("add", Value(now[0]), 1)
            return [following.expr, call.cast(call.tensor(flag), "bool").expr, *[v.expr for v in kept]]

        made = Call(loops.while_loop(more, state, step), tuple([v.expr for v in start]))
        return [Slot(self.sizes.sized(Value(TupleGetItem(made, k))), self.level) for k in range(2, len(start))]


def _overload(short: str) -> str:
    return {"select": "int", "slice": "Tensor", "transpose": "int"}.get(short, "")


def _flat(x: Any) -> list[Any]:
    if isinstance(x, Mapping):
        return [leaf for part in x.values() for leaf in _flat(part)]
    if isinstance(x, (list, tuple)):
        return [leaf for part in x for leaf in _flat(part)]
    return [x]
