"""Compiler of the virtual machine: bytecode and kernels of relay programs with control flow, data types and closures."""

from tilewright.relay.backend.vm.build import VMCompiler, compile, optimize
from tilewright.relay.backend.vm.executable import Executable
from tilewright.relay.backend.vm.executor import VMExecutor

__all__ = ["Executable", "VMCompiler", "VMExecutor", "compile", "optimize"]
