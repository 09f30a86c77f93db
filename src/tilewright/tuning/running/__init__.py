"""Runners: they measure libraries in a process of this machine (`local`), on boards (`rpc`), in a Ray cluster (`ray`).

measuring   what all of them do with a library: compare its outputs, time it
"""

from __future__ import annotations

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
