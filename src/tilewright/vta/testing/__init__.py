"""What tests of programs for the accelerator use: `vta.testing.run`, `vta.testing.simulator`."""

from __future__ import annotations

from tilewright.support import lazy

lazy.declare(__name__, {"run": f"{__name__}.utils:run"})
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
