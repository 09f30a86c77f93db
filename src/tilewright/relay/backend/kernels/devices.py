"""Kernels for several devices: a compiler for each device, and the objects of all kernels."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.backend import back_end_of
from tilewright.ir import IRModule
from tilewright.relay.backend.kernels.database_schedules import need_database
from tilewright.relay.backend.kernels.kernel import Kernel
from tilewright.relay.backend.kernels.machine_code import Progress, compile_kernels
from tilewright.relay.backend.te_compiler import TECompiler
from tilewright.relay.expr import Call, Expr, Function
from tilewright.relay.transform.memory.device_planner import DevicePlan, is_copy
from tilewright.runtime import Device, Module, cpu
from tilewright.target import CompilationConfig
from tilewright.tir import Var

CPU = cpu().device_type


class DeviceCompilers:
    """The compilers of a module's devices. Names of kernels are unique among all devices."""

    def __init__(self, mod: IRModule, config: CompilationConfig) -> None:
        self.config = config
        self.compilers = [TECompiler(t) for t in config.targets]
        for c in self.compilers[1:]:
            c.names = self.compilers[0].names
        self.plan = DevicePlan(mod, config) if len(config.devices) > 1 else None
        self.modules: list[Module] = []
        """The modules that the library imports: kernels of devices other than the CPU."""

    def kernel(self, func: Function, call: Expr, sizes: Sequence[Var] = ()) -> Kernel:
        """The kernel of a primitive function for the device of `call`."""
        if self.plan is None:
            return self.compilers[0].kernel(func, sizes)
        number, copy = self.plan.of(call), is_copy(call)
        if copy is not None and isinstance(call, Call) and self.crosses(call):
            # The runtime makes the copy; its kernel is compiled all the same, which not every device can.
            number = next((n for n, d in enumerate(self.config.devices) if d.device_type == CPU), number)
        compiler = self.compilers[number]
        with compiler.target:
            return compiler.kernel(func, sizes)

    def number(self, e: Expr) -> int:
        """The number of the device of a value."""
        return self.plan.of(e) if self.plan is not None else 0

    def device(self, e: Expr) -> Device:
        """The device of a value."""
        return self.config.devices[self.number(e)]

    def params(self, call: Call) -> list[int]:
        """The numbers of the devices of the parameters of the called function."""
        return self.plan.params(call) if self.plan is not None else [0] * len(call.args)

    def at_hand(self, number: int) -> int:
        """The number of the device whose constants a device reads. All CPUs read those of the first one."""
        devices = self.config.devices
        return 0 if all([d.device_type == CPU for d in (devices[0], devices[number])]) else number

    def crosses(self, copy: Call) -> bool:
        """Whether a copy is from or to a device whose memory the CPU cannot access. The runtime makes such copies."""
        ends = (self.device(copy.args[0]), self.device(copy))
        return any([d.device_type != CPU for d in ends])

    @property
    def kernels(self) -> list[Kernel]:
        """All kernels, ordered by device."""
        return [k for c in self.compilers for k in c.kernels.values()]

    def objects(self, progress: Progress | None) -> list[bytes]:
        """The objects of all kernels. Also puts the code for other devices into `modules`."""
        need_database()
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
