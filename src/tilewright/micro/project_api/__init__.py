"""What makes, builds, flashes and talks to projects: a server (the project's own program), and its client, on two pipes."""

from __future__ import annotations

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
