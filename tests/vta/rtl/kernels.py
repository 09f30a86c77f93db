"""Kernels of models in the hardware, with the inputs that they have in the functional simulator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import tilewright as tvm
from tests.vta.rtl.verilated import Verilated, placed
from tilewright import relay, rpc, vta
from tilewright.contrib.debugger.debug_executor import GraphModuleDebug
from tilewright.ir import IRModule
from tilewright.vta.compiler.back_end import AcceleratorBackEnd
from tilewright.vta.compiler.listing import kernels_of
from tilewright.vta.environment import Environment
from tilewright.vta.image import Kernel
from tilewright.vta.simulator.native import Simulator
from tilewright.vta.top.partitioning import canonical, partitioned


class Launch(NamedTuple):
    """A kernel that has run: cycles of the hardware and of the cycle-level simulator."""

    name: str
    hardware: int
    simulator: int


class Compiled(NamedTuple):
    """A kernel's program. arguments: for each argument the number of the input of its node, or -1 for the result."""

    kernel: Kernel
    arguments: tuple[int, ...]


def _arguments(names: Sequence[str]) -> tuple[int, ...]:
    """Which input of its node each parameter of a kernel is: inputs are `p0`, `p2`, ... in their order, the result has another name."""
    inputs = sorted([int(n[1:]) for n in names if n[0] == "p" and n[1:].isdecimal()])
    return tuple([inputs.index(int(n[1:])) if n[0] == "p" and n[1:].isdecimal() else -1 for n in names])


def _compiled(mod: IRModule, env: Environment) -> tuple[Any, dict[str, Compiled]]:
    """A library of a module in parts, and the programs of its kernels by name. They are compiled anew, not taken from the cache."""
    found: dict[str, Compiled] = {}
    source = AcceleratorBackEnd.source

    def kept(self: AcceleratorBackEnd, functions: IRModule, target: Any) -> str:
        text = source(self, functions, target)
        params = {str(f.attrs["global_symbol"]): f.params for f in functions.functions.values()}
        for k in kernels_of(text):
            found[k.name] = Compiled(k, _arguments([p.name for p in params[k.name]]))
        return text

    with (
        mock.patch.object(AcceleratorBackEnd, "source", kept),
        mock.patch.dict("os.environ", TILEWRIGHT_CACHE_BYTES="0"),
    ):
        parts, _ = partitioned(canonical(mod), None)
        targets: dict[Any, Any] = {tvm.cpu(0): "llvm", tvm.ext_dev(0): env.target}
        return relay.build(parts, targets), found


def run(mod: IRModule, hardware: Verilated, data: np.ndarray[Any, Any]) -> list[Launch]:
    """Runs a module of integers with one input, kernel by kernel, in the functional simulator and in the hardware. AssertionError where a
    result of a kernel differs."""
    config, launches = hardware.config, []
    timed = Simulator(config)
    with Environment({}) as env:
        vta.reconfig_runtime(rpc.LocalSession())
        library, kernels = _compiled(mod, env)
        graph, devices = library.get_graph_json(), [tvm.cpu(0), tvm.ext_dev(0)]
        module = GraphModuleDebug(library["debug_create"]("default", *devices), devices, graph)
        module.set_input(mod["main"].params[0].name_hint, data)
        for n, node in enumerate(json.loads(graph)["nodes"]):
            name = node.get("attrs", {}).get("func_name", "")
            made = next((k for full, k in kernels.items() if full.removesuffix("_kernel") == name), None)
            inputs = [module.get_node_output(i, j).numpy().tobytes() for i, j, *_ in node["inputs"]] if made else []
            module.execute_node(n)
            if made is None:
                continue
            expected = module.get_node_output(n).numpy().tobytes()
            arrays = [inputs[k] if k >= 0 else bytes(len(expected)) for k in made.arguments]
            memory, program, addresses = placed(config, made.kernel, arrays)
            taken, simulated = hardware.run(memory, program), timed.cycles(made.kernel)
            at = addresses[made.arguments.index(-1)]
            assert bytes(memory[at : at + len(expected)]) == expected, f"{name} differs"
            assert simulated is not None
            launches.append(Launch(name, taken, simulated))
        module.exit()
    return launches


__all__ = ["Compiled", "Launch", "run"]
