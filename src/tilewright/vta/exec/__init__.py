"""Programs: `python -m tilewright.vta.exec.rpc_server`, and under its classic name after `-m tilewright.as_tvm`."""

from __future__ import annotations

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
