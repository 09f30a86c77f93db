"""The errors that a program can meet, under their classic place."""

from __future__ import annotations

from tilewright.runtime.errors import register_error
from tilewright.support.errors import (
    DiagnosticError,
    InternalError,
    ModelWarning,
    OpAttributeInvalid,
    OpAttributeRequired,
    OpAttributeUnImplemented,
    OpError,
    OpNotEnabled,
    OpNotImplemented,
    RPCError,
    ScheduleError,
    TVMError,
)

__all__ = [
    "DiagnosticError",
    "InternalError",
    "ModelWarning",
    "OpAttributeInvalid",
    "OpAttributeRequired",
    "OpAttributeUnImplemented",
    "OpError",
    "OpNotEnabled",
    "OpNotImplemented",
    "RPCError",
    "ScheduleError",
    "TVMError",
    "register_error",
]
