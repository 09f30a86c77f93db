"""Kernels for one or several devices: the tensors of a primitive function and facts about them, its schedule, its machine code."""

from tilewright.support import lazy
from tilewright.support.deferred import defer

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)

defer("tilewright.relay.backend.kernels.machine_code")
