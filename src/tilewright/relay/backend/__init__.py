"""Compilation of relay: kernels of primitive functions, memory plan, ahead-of-time entry; and the debug executor."""

from __future__ import annotations

from typing import Any

from tilewright.ir import IRModule
from tilewright.relay.backend.debug_executor import DebugExecutor
from tilewright.relay.backend.options import Executor, Runtime
from tilewright.relay.backend.program_executor import ProgramExecutor
from tilewright.relay.evaluation.interpreter import Interpreter
from tilewright.relay.expr import Function
from tilewright.relay.parameters import bind
from tilewright.support import lazy
from tilewright.support.deferred import defer
from tilewright.target.virtual_device import Targets


def create_executor(
    kind: str = "debug", mod: IRModule | None = None, device: Any = None, target: Targets = "llvm", params: Any = None
) -> ProgramExecutor:
    """An executor of a module; its `evaluate(expr, binds)` runs functions and expressions of the module. "debug" runs the whole language
    on NumPy; "graph" and "aot" compile functions of tensors with static shapes; "vm" compiles any program. params: values of main's
    parameters by name. device: one device, or a list if the module runs on several."""
    mod = IRModule() if mod is None else mod
    if params:
        bound = {
            g: bind(f, params) for g, f in mod.functions.items() if g.name_hint == "main" and isinstance(f, Function)
        }
        mod = mod.with_functions({**mod.functions, **bound})
    if kind in ("debug", "interpreter"):
        return DebugExecutor(mod, device, target)
    # Imported here: passes use the interpreter, and the compilers take longer to import.
    if kind in ("graph", "aot"):
        from tilewright.relay.backend.compiled_executor import make_compiled

        return make_compiled(kind, mod, device, target)
    if kind == "vm":
        from tilewright.relay.backend.vm import VMExecutor

        return VMExecutor(mod, device, target)
    raise ValueError(f"unknown executor {kind!r}: the executors are debug, graph, aot and vm")


# These modules compile a model. A model from the cache does not need them.
defer(*[f"tilewright.relay.backend.{name}" for name in ("compilation", "model_source", "te_compiler")])

_UMA = [f"{__name__}.byoc.uma:{name}" for name in ("PassPhase", "UMABackend", "uma_available")]
lazy.faces(
    __name__,
    {
        "executor": (f"{__name__}.options:Executor",),
        "contrib": (),
        "contrib.uma": _UMA,
        "contrib.uma.api": _UMA,
        "contrib.uma.api.utils": (f"{__name__}.byoc.uma:PassPhase",),
        "contrib.uma.backend": (f"{__name__}.byoc.uma:UMABackend",),
        "runtime": (f"{__name__}.options:Runtime",),
        "interpreter": (
            f"{__name__}.program_executor:Executor",
            *[
                f"tilewright.relay.evaluation.interpreter:{name}"
                for name in ("ConstructorValue", "Interpreter", "RefValue")
            ],
        ),
    },
)
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)

__all__ = ["DebugExecutor", "Executor", "Interpreter", "ProgramExecutor", "Runtime", "create_executor"]
