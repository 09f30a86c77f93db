"""The address of a tracker as text."""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

from tilewright.driver.tvmc.errors import TVMCException

logger = logging.getLogger("TVMC")
PORT = 9090
"""The port of an address without one."""


def tracker_host_port_from_cli(rpc_tracker_str: str | None) -> tuple[str | None, int | None]:
    """(host, port) of `host:port`, `host` or `[v6]:port`; (None, None) without an address."""
    if not rpc_tracker_str:
        return None, None
    try:
        parts = urlsplit(f"//{rpc_tracker_str}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or parts.path:
        raise TVMCException(
            f"--rpc-tracker takes HOST:PORT, such as 192.168.0.10:9190, but was given {rpc_tracker_str!r}"
        )
    logger.debug("the tracker is %s:%s", host, port or PORT)
    return host, port or PORT
