"""Kernels for several devices: a compiler for each, and the objects of all."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.backend import back_end_of
from tilewright.ir import IRModule
from tilewright.relay.backend.kernels.kernel import Kernel
from tilewright.relay.backend.kernels.machine_code import Progress, compile_kernels
from tilewright.relay.backend.te_compiler import TECompiler
from tilewright.relay.expr import Call, Expr, Function
from tilewright.relay.transform.memory.device_planner import DevicePlan
from tilewright.runtime import Device, Module, cpu
from tilewright.target import CompilationConfig
from tilewright.tir import Var

CPU = cpu().device_type


class DeviceCompilers:
    """The compilers of the devices that a module runs on. Names of kernels are unique among all."""

    def __init__(self, mod: IRModule, config: CompilationConfig) -> None:
        self.config = config
        self.compilers = [TECompiler(t) for t in config.targets]
        for c in self.compilers[1:]:
            c.names = self.compilers[0].names
        self.plan = DevicePlan(mod, config) if len(config.devices) > 1 else None
        self.modules: list[Module] = []
        """What the library imports: kernels of other devices than the CPU."""

    def kernel(self, func: Function, call: Expr, sizes: Sequence[Var] = ()) -> Kernel:
        """The kernel of a primitive function for the device that a call of it runs on."""
        if self.plan is None:
            return self.compilers[0].kernel(func, sizes)
        compiler = self.compilers[self.plan.of(call)]
        with compiler.target:
            return compiler.kernel(func, sizes)

    def number(self, e: Expr) -> int:
        """The device that a value is on, by its place among the devices."""
        return self.plan.of(e) if self.plan is not None else 0

    def device(self, e: Expr) -> Device:
        """The device that a value is on."""
        return self.config.devices[self.number(e)]

    def params(self, call: Call) -> list[int]:
        """The devices of the parameters of the function that a call is of."""
        return self.plan.params(call) if self.plan is not None else [0] * len(call.args)

    def at_hand(self, number: int) -> int:
        """The device whose constants code on a device reads: all CPUs read those of the first."""
        devices = self.config.devices
        return 0 if all([d.device_type == CPU for d in (devices[0], devices[number])]) else number

    def crosses(self, copy: Call) -> bool:
        """Whether a copy is one from or to a device whose memory the CPU cannot touch, which no kernel makes."""
        ends = (self.device(copy.args[0]), self.device(copy))
        return any([d.device_type != CPU for d in ends])

    @property
    def kernels(self) -> list[Kernel]:
        """All kernels, those of one device after those of the one before."""
        return [k for c in self.compilers for k in c.kernels.values()]

    def objects(self, progress: Progress | None) -> list[bytes]:
        """The machine code of all kernels; what other devices run of them is in `modules` then."""
        found: list[bytes] = []
        total = len(self.kernels)
        for compiler in self.compilers:
            kernels = list(compiler.kernels.values())
            before = len(found)

            def report(done: int, _: int, what: str, before: int = before) -> None:
                if progress is not None:
                    progress(before + done, total, what)

            if kernels or compiler is self.compilers[0]:
                objects = compile_kernels(kernels, compiler.target, report if progress is not None else None)
                linked, modules = back_end_of(compiler.target).launched(objects, compiler.target)
                found += linked
                self.modules += modules
        return found
