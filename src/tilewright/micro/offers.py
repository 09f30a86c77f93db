"""What servers offer for boards behind them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tilewright.runtime.packed_func import register_func

CREATE_SESSION = "tvm.micro.compile_and_create_micro_session"
"""The name under which servers offer what makes sessions with projects."""


def offer_sessions(own_options: Mapping[str, Any] | None = None) -> None:
    """Lets the servers that this process starts make projects, and sessions with them, for their clients (`micro.AutoTvmModuleLoader`).

    own_options: of every project, in the place of the client's: such as the port of the one board that is here."""
    own = dict(own_options or {})

    def create(package: bytes, template: str, options: str = "{}", *more: Any) -> Any:
        from tilewright.micro.transport_session import compile_and_create_micro_session

        given = json.dumps({**json.loads(options or "{}"), **own})
        return compile_and_create_micro_session(package, template, given, *more)

    register_func(CREATE_SESSION, create, override=True)


__all__ = ["CREATE_SESSION", "offer_sessions"]
