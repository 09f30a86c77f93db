"""torch.compile(model, backend="tilewright"): compiles the supported parts of a graph and leaves the rest to PyTorch.

A captured graph comes as ATen operators. Each operator is imported once to test whether it is supported. Neighbouring supported
ones become pieces, compiled at their first run. While gradients are off, parameters and buffers are constants of a piece,
so weights are packed once. A piece detects writes to them, and is then compiled again.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.relay.expr import Expr
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.dtypes import STORED, dtype_name, tensor_array, torch_dtype
from tilewright.relay.frontend.pytorch.exported import ExportedImporter, extents_of, is_alone
from tilewright.relay.frontend.pytorch.higher_order import higher_order
from tilewright.relay.frontend.pytorch.value import Argument, Meta, TorchCall
from tilewright.support.errors import ModelError, TVMError
from tilewright.target import Target

if TYPE_CHECKING:
    import torch

Run = Callable[..., Any]
"""A function that runs a graph on tensors and other arguments."""
Compiler = Callable[[Any, Sequence[Any]], Run]
logger = logging.getLogger(__name__)


def backend(
    graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor], *, mode: str | None = None,
    options: Mapping[str, Any] | None = None, target: Any = None,
) -> Callable[..., Any]:  # fmt: skip
    """The backend that torch.compile calls. options: {"target": ...}; the default target is "llvm". `mode` is for PyTorch's own compiler.

    For other options the returned function raises ModelError when it is called; for invalid targets, the error of Target.
    """
    from torch._dynamo.backends.common import aot_autograd

    try:
        target = _target(mode, options, target)
    except TVMError as error:
        # PyTorch would wrap an error raised here in its own exception, and would not reset its evaluation of frames.
        return _raising(error)

    def compiler(inner: Any, given: Sequence[Any]) -> Callable[..., Any]:
        return compile_graph(inner, target)

    compiled: Compiler = aot_autograd(fw_compiler=compiler, bw_compiler=compiler, decompositions=decompositions())
    return compiled(graph, inputs)


@functools.cache
def decompositions() -> dict[Any, Any]:
    """PyTorch's decompositions of operators without a converter. Collecting them takes longer than importing a graph."""
    return GraphImporter().decompositions()


def _target(mode: str | None, options: Mapping[str, Any] | None, target: Any) -> Target:
    """The target in the options."""
    given = {"target": target or "llvm", **(options or {})}
    unknown = sorted(set(given) - {"target"})
    if unknown:
        raise ModelError(
            f'torch.compile(backend="tilewright") has the option "target" only, but was given {", ".join(map(repr, unknown))}'
        )
    if mode is not None:
        logger.info("mode=%r is about PyTorch's own compiler, and changes nothing here", mode)
    return Target(given["target"])


def _raising(error: TVMError) -> Callable[..., Any]:
    """A function that raises an error."""

    def failed(*args: object) -> Any:
        raise error.with_traceback(None)

    return failed


def compile_graph(graph: torch.fx.GraphModule, target: Target) -> Callable[..., Any]:
    """A function that runs a graph of ATen operators, with its supported parts compiled."""
    from torch._functorch.aot_autograd import make_boxed_func as boxed
    from torch._subclasses.fake_tensor import unset_fake_temporarily
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    make_boxed_func: Callable[[Any], Run] = boxed
    probe = Probe()
    # PyTorch compiles with fake tensors, but constants of the graph are real ones.
    with unset_fake_temporarily():
        probe.try_graph(graph)
    if not probe.refused:
        return make_boxed_func(Piece(graph, target))
    for node, why in probe.refused.items():
        logger.info("left to PyTorch: %s: %s", node.name, why)

    class Support(OperatorSupportBase):  # type: ignore[misc]
        def is_node_supported(self, submodules: Mapping[str, Any], node: torch.fx.Node) -> bool:
            return node.op == "call_function" and node not in probe.refused and node not in probe.sizes_of

    parts = CapabilityBasedPartitioner(graph, Support(), allows_single_node_partition=False)
    fused = parts.fuse_partitions(parts.propose_partitions())
    for name, inner in list(fused.named_children()):
        if name.startswith("fused_"):
            setattr(fused, name, _as_module(Piece(inner, target)))
    fused.recompile()
    return make_boxed_func(fused)


def _as_module(piece: Piece) -> torch.nn.Module:
    import torch

    class Compiled(torch.nn.Module):  # type: ignore[misc]
        """A compiled piece as a module for PyTorch."""

        def forward(self, *args: object) -> Any:
            found = piece(*args)
            return found[0] if piece.single else found

    return Compiled()


class GraphImporter(ExportedImporter):
    """The import of one of the graphs that torch.compile captures."""

    def __init__(self, title: str = "a piece of the graph") -> None:
        super().__init__(title, "float32", None, False)


class Probe(GraphImporter):
    """An import that records unsupported calls and continues, with their results as inputs."""

    def __init__(self) -> None:
        super().__init__("the graph")
        self.refused: dict[Any, str] = {}
        self.sizes_of: set[Any] = set()

    def try_graph(self, graph: torch.fx.GraphModule) -> None:
        """Imports all of a graph."""
        env: dict[Any, Any] = {}
        shared = shared_views(graph)
        extents = extents_of(n for n in graph.graph.nodes if n.op == "placeholder")
        for node in graph.graph.nodes:
            meta = node.meta.get("val")
            if node.op == "placeholder":
                alone = is_alone(meta, extents)
                env[node] = self.number_input(node.name, meta) if alone else self.stand_in(node, meta)
            elif node.op == "get_attr":
                env[node] = self.attribute(graph, node.target)
            elif node in shared:
                env[node] = self.refuse(node, meta, "its result shares elements with another output")
            elif node.op == "call_function":
                env[node] = self.attempt(node, env, meta)

    def attempt(self, node: torch.fx.Node, env: dict[Any, Any], meta: Meta) -> Any:
        """The result of a call, or its stand-in."""
        import torch

        if isinstance(meta, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            self.sizes_of.add(node)
        if not self.takes(node.target) or higher_order(node.target):
            return self.refuse(node, meta, "no converter")
        if isinstance(meta, torch.Tensor) and meta.dtype.is_complex:
            return self.refuse(node, meta, "complex numbers")
        elsewhere = devices(node) - {"cpu"}
        if elsewhere:
            return self.refuse(node, meta, f"its tensors are on {', '.join(sorted(elsewhere))}")
        draws, hosted = self.draws, self.hosted
        try:
            result = self.node(node, env)
        except TVMError as error:
            return self.refuse(node, meta, str(error))
        if self.draws != draws:
            return self.refuse(node, meta, "PyTorch's generator draws random numbers")
        if self.hosted != hosted:
            return self.refuse(node, meta, "PyTorch has a kernel for it, we a function of NumPy")
        if self.problems:
            text = self.problems.pop()
            self.problems.clear()
            return self.refuse(node, meta, text)
        return result

    def refuse(self, node: torch.fx.Node, meta: Meta, why: str) -> Any:
        """Records a call that is left to PyTorch."""
        self.refused[node] = why
        return self.stand_in(node, meta)

    def stand_in(self, node: torch.fx.Node, meta: Meta) -> Any:
        """An input of the type of a fake tensor."""
        if isinstance(meta, (list, tuple)):
            return [self.stand_in(node, m) for m in meta]
        if hasattr(meta, "dtype"):
            try:
                return self.input(f"{node.name}_{len(self.inputs)}", self.sizes.shape(meta), dtype_name(meta.dtype))
            except (TVMError, TypeError):
                return None
        try:
            return self.sizes.plain(meta)
        except TVMError:
            return None


def shared_views(graph: torch.fx.GraphModule) -> set[Any]:
    """View operators between a tensor and outputs, if several outputs share its elements. PyTorch runs them, so that
    a write to one is visible in the other."""
    import torch

    (output,) = [n for n in graph.graph.nodes if n.op == "output"]
    chains: dict[Any, list[list[Any]]] = {}
    for node in dict.fromkeys(output.all_input_nodes):
        chain, root = [], node
        while (
            root.op == "call_function"
            and _is_view(root.target)
            and root.args
            and isinstance(root.args[0], torch.fx.Node)
        ):
            chain.append(root)
            root = root.args[0]
        chains.setdefault(root, []).append(chain)
    return {n for several in chains.values() if len(several) > 1 for chain in several for n in chain}


def _is_view(target: Any) -> bool:
    """Whether an operator's result shares the elements of its first argument."""
    schema = getattr(target, "_schema", None)
    return bool(
        schema is not None and not schema.is_mutable and schema.returns and schema.returns[0].alias_info is not None
    )


def devices(node: torch.fx.Node) -> set[str]:
    """Devices of the tensors that a call reads and makes."""
    from torch.utils import _pytree

    values = [n.meta.get("val") for n in [node, *node.all_input_nodes]]
    return {v.device.type for v in _pytree.tree_leaves(values) if hasattr(v, "device")}


class Piece:
    """A graph of supported operators, compiled at its first run, and again after a write to a parameter that is a constant."""

    def __init__(self, graph: torch.fx.GraphModule, target: Target) -> None:
        self.graph, self.target = graph, target
        self.lock = Lock()
        self.places = [n for n in graph.graph.nodes if n.op == "placeholder"]
        (output,) = [n for n in graph.graph.nodes if n.op == "output"]
        self.single = not isinstance(output.args[0], (list, tuple))
        wanted = [output.args[0]] if self.single else output.args[0]
        self.orders = [axis_order(getattr(n, "meta", {}).get("val")) for n in wanted]
        self.run: Callable[[Sequence[Any]], list[Any]] | None = None
        self.frozen: dict[int, tuple[int, int]] = {}
        self.failed = False

    def __call__(self, *args: object) -> Any:
        # One thread at a time: a piece has one set of inputs and outputs.
        with self.lock:
            if self.run is None or any([_stamp(args[k]) != stamp for k, stamp in self.frozen.items()]):
                self.build(args)
            if not self.failed and self.run is not None:
                return self.run(args)
        found = self.graph(*args)
        return [found] if self.single else found

    def build(self, args: Sequence[Argument]) -> None:
        """Compiles the graph for these arguments."""
        self.frozen = {k: _stamp(a) for k, a in enumerate(args) if _is_constant(a)}
        try:
            self.run = self.compiled(args)
        except TVMError as error:
            logger.warning("a piece of the graph is left to PyTorch: %s", error)
            self.failed = True

    def compiled(self, args: Sequence[Argument]) -> Callable[[Sequence[Any]], list[Any]]:
        """The function that runs the piece."""
        import torch

        home = GraphImporter()
        extents = extents_of(self.places)
        values: list[Any] = []
        fed: list[int] = []
        for k, (place, arg) in enumerate(zip(self.places, args, strict=True)):
            meta = place.meta.get("val")
            if k in self.frozen:
                values.append(Value(array=tensor_array(arg)))
            elif isinstance(arg, torch.Tensor):
                values.append(home.input(f"x{k}", home.sizes.shape(meta), dtype_name(arg.dtype)))
                fed.append(k)
            elif is_alone(meta, extents):
                values.append(home.number_input(f"x{k}", meta))
                fed.append(k)
            else:
                values.append(home.sizes.plain(meta))
        results = home.graph(self.graph, values)
        home.finish()
        kept = [k for k, r in enumerate(results) if r is not None]
        call = TorchCall("output", "output", home)
        outputs: list[Expr] = [call.transpose(call.tensor(results[k]), self.orders[k] or ()).expr for k in kept]
        sizes = [k for k in kept if not isinstance(results[k], Value)]
        if not outputs:
            return lambda given: [None] * len(results)
        mod, _ = home.module([Value(e) for e in outputs], [f"y{k}" for k in kept])
        execute = _executor(mod, self.target, bool(home.sizes.symbols))

        def run(given: Sequence[Any]) -> list[Any]:
            made = execute([_array(given[k]) for k in fed])
            answer: list[Any] = [None] * len(results)
            for k, array in zip(kept, made, strict=True):
                answer[k] = int(array) if k in sizes else _tensor(array, self.orders[k])
            return answer

        return run


def axis_order(meta: Meta) -> tuple[int, ...] | None:
    """The axes of a tensor from the longest stride to the shortest; None if that is their own order, or if the strides are
    unknown."""
    import torch

    if not isinstance(meta, torch.Tensor):
        return None
    steps = [getattr(getattr(s, "node", s), "hint", s) for s in meta.stride()]
    if any([s is None or s == 0 for s in steps]):
        return None
    order = sorted(range(len(steps)), key=lambda k: (-steps[k], k))
    return tuple(order) if order != list(range(len(steps))) else None


def _executor(mod: Any, target: Target, dynamic: bool) -> Callable[[list[np.ndarray]], list[np.ndarray]]:
    """A function from inputs to outputs: of a graph executor, or of the virtual machine for dynamic dimensions."""
    from tilewright import relay
    from tilewright.runtime import cpu

    if dynamic:
        from tilewright.runtime.vm import VirtualMachine

        machine = VirtualMachine(relay.vm.compile(mod, target), cpu())

        def run_machine(inputs: list[np.ndarray]) -> list[np.ndarray]:
            result = machine.run(*inputs)
            return [r.numpy() for r in ([result] if hasattr(result, "numpy") else result)]

        return run_machine
    module = relay.build(mod, target)["default"](cpu())
    set_input, run, get_output = module["set_input"], module["run"], module["get_output"]
    count = int(module["get_num_outputs"]())

    def run_graph(inputs: list[np.ndarray]) -> list[np.ndarray]:
        from tilewright.runtime import array

        for k, x in enumerate(inputs):
            set_input(k, array(x))
        run()
        # The next run overwrites the outputs.
        return [get_output(k).numpy().copy() for k in range(count)]

    return run_graph


def _is_constant(a: Any) -> bool:
    import torch

    held = isinstance(a, torch.nn.Parameter) or getattr(a, "_dynamo_static_input_type", None) is not None
    # Tensors of inference mode have no version counter.
    return isinstance(a, torch.Tensor) and held and not torch.is_grad_enabled() and not a.is_inference()


def _stamp(a: Any) -> tuple[int, int]:
    """Version of a tensor: it changes when the tensor is written or replaced."""
    return (a.data_ptr(), a._version)


def _array(x: Any) -> np.ndarray:
    """The elements of a tensor in memory order, or a number as an array without axes."""
    return np.asarray(x, np.int64) if isinstance(x, int) else np.asarray(tensor_array(x), order="C")


def _tensor(array: np.ndarray, order: tuple[int, ...] | None = None) -> Any:
    """The tensor of an array with the tensor's axes in this order."""
    import torch

    name = array.dtype.name
    if name in STORED:
        made = torch.from_numpy(array.view(STORED[name])).view(torch_dtype(name))
    else:
        made = torch.from_numpy(array)
    return made if order is None else made.permute([order.index(k) for k in range(len(order))])
