"""Programs under their classic names: `python -m vta.exec.rpc_server`."""

from __future__ import annotations

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
