"""Template projects: a folder each, whose program `microtvm_api_server.py` makes, builds, flashes and talks to projects."""

from __future__ import annotations

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
