"""Executor "vm" of `relay.create_executor`."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tilewright import runtime
from tilewright.ir import GlobalVar, IRModule
from tilewright.relay.backend.program_executor import Call, ProgramExecutor
from tilewright.relay.backend.vm.build import compile
from tilewright.relay.backend.vm.executable import Executable
from tilewright.relay.evaluation.interpreter import ConstructorValue, RefValue
from tilewright.relay.expr import Function
from tilewright.runtime.container import ADT, Ref
from tilewright.runtime.vm import VirtualMachine


class VMExecutor(ProgramExecutor):
    """`relay.create_executor("vm", mod)`: compiles the module for the virtual machine. Results are NDArrays and ADTs of them."""

    @functools.cached_property
    def executable(self) -> Executable:
        """The compiled module."""
        return self.compiled(self.mod)

    @functools.cached_property
    def vm(self) -> VirtualMachine:
        """The virtual machine that runs the compiled module."""
        return VirtualMachine(self.executable, self.device)

    def compiled(self, mod: IRModule) -> Executable:
        """Compiles a module for the target."""
        return compile(mod, self.target)

    def make(self, gvar: GlobalVar | None, func: Function) -> Call:
        if gvar is not None:
            name, vm = gvar.name_hint, self.vm
        else:
            functions = {g: f for g, f in self.mod.functions.items() if g.name_hint != "main"}
            mod = self.mod.with_functions({**functions, GlobalVar("main"): func})
            name, vm = "main", VirtualMachine(self.compiled(mod), self.device)
        return lambda args: vm.invoke(name, *[as_value(a) for a in args])


def as_value(value: Any) -> Any:
    """An argument for the virtual machine. Values of data types become ADTs."""
    if isinstance(value, ConstructorValue):
        # A loop, since long lists would exceed the limit of recursion.
        order, stack = [], [value]
        while stack:
            node = stack.pop()
            order.append(node)
            stack += [f for f in node.fields if isinstance(f, ConstructorValue)]
        made: dict[int, ADT] = {}
        for node in reversed(order):
            made[id(node)] = ADT(
                node.tag, [made[id(f)] if isinstance(f, ConstructorValue) else as_value(f) for f in node.fields]
            )
        return made[id(value)]
    if isinstance(value, RefValue):
        return Ref(as_value(value.value))
    if isinstance(value, (tuple, list)):
        return ADT(0, [as_value(v) for v in value])
    return value if isinstance(value, (runtime.NDArray, ADT, Ref, int, float)) else runtime.array(np.asarray(value))
