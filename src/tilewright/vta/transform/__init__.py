"""Passes under their classic names, which write what a kernel does as calls of the accelerator's driver.

The compiler (`vta/compiler`) finds copies, steps and tokens itself, so a program needs none of these; it takes what they make, too."""

from __future__ import annotations

from tilewright.support import lazy

_HOMES = {
    "copies": ("InjectDMAIntrin", "InjectSkipCopy"),
    "steps": ("AnnotateALUCoProcScope", "FoldUopLoop", "InjectALUIntrin"),
    "skipping": ("InjectConv2DTransposeSkip",),
    "scopes": ("CPUAccessRewrite", "InjectCoProcSync", "LiftAllocToScopeBegin"),
}
lazy.declare(__name__, {name: f"{__name__}.{home}:{name}" for home, names in _HOMES.items() for name in names})
__getattr__, __dir__ = lazy.late(__name__)
