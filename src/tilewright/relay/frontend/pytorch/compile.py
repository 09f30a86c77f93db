"""torch.compile(model, backend="tilewright"): what is supported of a graph is compiled, the rest stays PyTorch's.

A graph that PyTorch captured comes here in ATen's operators. Each is imported once to see what is supported; neighbouring supported
ones become pieces, compiled when they first run. Parameters and buffers are then constants of the piece while gradients are off, so
that weights are packed once; a piece notices when they were written, and is built again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.relay.expr import Expr
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.dtypes import dtype_name, tensor_array
from tilewright.relay.frontend.pytorch.exported import ExportedImporter, higher_order
from tilewright.relay.frontend.pytorch.value import TorchCall
from tilewright.support.errors import TVMError

logger = logging.getLogger(__name__)


def backend(graph: Any, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """The backend that torch.compile calls; `options`: target (default "llvm")."""
    from torch._dynamo.backends.common import aot_autograd

    target = options.get("options", options).get("target", "llvm")

    def compiler(inner: Any, given: Sequence[Any]) -> Callable[..., Any]:
        return compile_graph(inner, target)

    decompositions = ExportedImporter("the graph", "float32", None, False).decompositions()
    compiled = aot_autograd(fw_compiler=compiler, bw_compiler=compiler, decompositions=decompositions)
    return compiled(graph, inputs)  # type: ignore[no-any-return]


def compile_graph(graph: Any, target: str) -> Callable[..., Any]:
    """A function that runs a graph of ATen's operators, as much of it as is supported compiled."""
    from torch._functorch.aot_autograd import make_boxed_func
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    probe = Probe()
    probe.try_graph(graph)
    if not probe.refused:
        return make_boxed_func(Piece(graph, target))  # type: ignore[no-any-return]
    for node, why in probe.refused.items():
        logger.info("left to PyTorch: %s: %s", node.name, why)

    class Support(OperatorSupportBase):  # type: ignore[misc]
        def is_node_supported(self, submodules: Mapping[str, Any], node: Any) -> bool:
            return node.op == "call_function" and node not in probe.refused and node not in probe.sizes_of

    parts = CapabilityBasedPartitioner(graph, Support(), allows_single_node_partition=False)
    fused = parts.fuse_partitions(parts.propose_partitions())
    for name, inner in list(fused.named_children()):
        if name.startswith("fused_"):
            setattr(fused, name, _as_module(Piece(inner, target)))
    fused.recompile()
    return make_boxed_func(fused)  # type: ignore[no-any-return]


def _as_module(piece: Piece) -> Any:
    import torch

    class Compiled(torch.nn.Module):  # type: ignore[misc]
        """A compiled piece where PyTorch expects a module."""

        def forward(self, *args: Any) -> Any:
            found = piece(*args)
            return found[0] if piece.single else found

    return Compiled()


class Probe(ExportedImporter):
    """An import that goes on where something is not supported, as if it were an input: it tells which calls those are."""

    def __init__(self) -> None:
        super().__init__("the graph", "float32", None, False)
        self.refused: dict[Any, str] = {}
        self.sizes_of: set[Any] = set()

    def try_graph(self, graph: Any) -> None:
        """Import all of a graph."""
        env: dict[Any, Any] = {}
        for node in graph.graph.nodes:
            meta = node.meta.get("val")
            if node.op == "placeholder":
                env[node] = self.stand_in(node, meta)
            elif node.op == "get_attr":
                env[node] = self.attribute(graph, node.target)
            elif node.op == "call_function":
                env[node] = self.attempt(node, env, meta)

    def attempt(self, node: Any, env: dict[Any, Any], meta: Any) -> Any:
        """The result of a call, or what stands in for it."""
        import torch

        if isinstance(meta, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            self.sizes_of.add(node)
        if not self.takes(node.target) or higher_order(node.target):
            return self.refuse(node, meta, "no converter")
        if isinstance(meta, torch.Tensor) and meta.dtype.is_complex:
            return self.refuse(node, meta, "complex numbers")
        try:
            result = self.node(node, env)
        except TVMError as error:
            return self.refuse(node, meta, str(error))
        if self.problems:
            text = self.problems.pop()
            self.problems.clear()
            return self.refuse(node, meta, text)
        return result

    def refuse(self, node: Any, meta: Any, why: str) -> Any:
        """Note a call that is left to PyTorch."""
        self.refused[node] = why
        return self.stand_in(node, meta)

    def stand_in(self, node: Any, meta: Any) -> Any:
        """An input of the type that PyTorch says."""
        if isinstance(meta, (list, tuple)):
            return [self.stand_in(node, m) for m in meta]
        if hasattr(meta, "dtype"):
            try:
                return self.input(f"{node.name}_{len(self.inputs)}", self.sizes.shape(meta), dtype_name(meta.dtype))
            except TVMError:
                return None
        try:
            return self.sizes.plain(meta)
        except TVMError:
            return None


class Piece:
    """A graph of supported operators, compiled when it first runs, or again when a parameter that it took as constant was written."""

    def __init__(self, graph: Any, target: str) -> None:
        self.graph, self.target = graph, target
        self.places = [n for n in graph.graph.nodes if n.op == "placeholder"]
        (output,) = [n for n in graph.graph.nodes if n.op == "output"]
        self.single = not isinstance(output.args[0], (list, tuple))
        self.run: Callable[[Sequence[Any]], list[Any]] | None = None
        self.frozen: dict[int, tuple[int, int]] = {}
        self.failed = False

    def __call__(self, *args: Any) -> Any:
        if self.run is None or any([_stamp(args[k]) != stamp for k, stamp in self.frozen.items()]):
            self.build(args)
        if self.failed or self.run is None:
            found = self.graph(*args)
            return [found] if self.single else found
        return self.run(args)

    def build(self, args: Sequence[Any]) -> None:
        """Compile for these arguments."""
        self.frozen = {k: _stamp(a) for k, a in enumerate(args) if _is_constant(a)}
        try:
            self.run = self.compiled(args)
        except TVMError as error:
            logger.warning("a piece of the graph is left to PyTorch: %s", error)
            self.failed = True

    def compiled(self, args: Sequence[Any]) -> Callable[[Sequence[Any]], list[Any]]:
        """The function that runs the piece."""
        import torch

        home = ExportedImporter("a piece of the graph", "float32", None, False)
        values: list[Any] = []
        fed: list[int] = []
        for k, (place, arg) in enumerate(zip(self.places, args, strict=True)):
            meta = place.meta.get("val")
            if k in self.frozen:
                values.append(Value(array=tensor_array(arg)))
            elif isinstance(arg, torch.Tensor):
                values.append(home.input(f"x{k}", home.sizes.shape(meta), dtype_name(arg.dtype)))
                fed.append(k)
            else:
                values.append(home.sizes.plain(meta))
        results = home.graph(self.graph, values)
        home.finish()
        kept = [k for k, r in enumerate(results) if r is not None]
        call = TorchCall("output", "output", home)
        outputs: list[Expr] = [call.tensor(results[k]).expr for k in kept]
        sizes = [k for k in kept if not isinstance(results[k], Value)]
        if not outputs:
            return lambda given: [None] * len(results)
        mod, _ = home.module([Value(e) for e in outputs], [f"y{k}" for k in kept])
        execute = _executor(mod, self.target, bool(home.sizes.symbols))

        def run(given: Sequence[Any]) -> list[Any]:
            made = execute([_array(given[k]) for k in fed])
            answer: list[Any] = [None] * len(results)
            for k, array in zip(kept, made, strict=True):
                answer[k] = int(array) if k in sizes else _tensor(array)
            return answer

        return run


def _executor(mod: Any, target: str, open_sizes: bool) -> Callable[[list[np.ndarray]], list[np.ndarray]]:
    """A function from inputs to outputs: of a graph, or of the virtual machine where sizes are open."""
    from tilewright import relay
    from tilewright.runtime import cpu

    if open_sizes:
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
        # Outputs are written again by the next run.
        return [get_output(k).numpy().copy() for k in range(count)]

    return run_graph


def _is_constant(a: Any) -> bool:
    import torch

    held = isinstance(a, torch.nn.Parameter) or getattr(a, "_dynamo_static_input_type", None) is not None
    return isinstance(a, torch.Tensor) and held and not torch.is_grad_enabled()


def _stamp(a: Any) -> tuple[int, int]:
    """What changes when a tensor is written or replaced."""
    return (a.data_ptr(), a._version)


def _array(x: Any) -> np.ndarray:
    return np.ascontiguousarray(tensor_array(x))


def _tensor(array: np.ndarray) -> Any:
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
