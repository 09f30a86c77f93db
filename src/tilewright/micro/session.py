"""Sessions under their classic names: with firmware that has a server, over a transport, and with a board, over a debug connection."""

from __future__ import annotations

from typing import Any

from tilewright.micro.debug_session import DebugSession
from tilewright.micro.errors import SessionTerminatedError
from tilewright.micro.local_executor import create_local_debug_executor, create_local_graph_executor
from tilewright.micro.transport_session import (
    TransportSession,
    compile_and_create_micro_session,
    create_local_aot_executor,
)


class Session(TransportSession):
    """A session: `with micro.Session(transport) as session`, `with micro.Session(config) as session`.

    transport_context_manager: a transport, such as of `GeneratedProject.transport`, or what opens one: the firmware at its other end has a
    server. Or the configuration of a board (`micro.generate_config`), its name, or the path of a description: the session is then a
    `DebugSession`, and has that one's methods. The other arguments are those of `TransportSession`.
    """

    def __new__(cls, *given: Any, **named: Any) -> Any:
        over = (
            given[0]
            if given
            else next((named[k] for k in ("transport_context_manager", "device_config") if k in named), None)
        )
        if cls is Session and not hasattr(over, "__enter__"):
            return DebugSession(*given, **named)
        return super().__new__(cls)


__all__ = [
    "DebugSession", "Session", "SessionTerminatedError", "compile_and_create_micro_session", "create_local_aot_executor",
    "create_local_debug_executor", "create_local_graph_executor",
]  # fmt: skip
