"""Tests that run on the board of the current environment, wherever it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tilewright import rpc
from tilewright.vta.environment import Environment, get_env
from tilewright.vta.rpc_client import program_fpga, reconfig_runtime


def run(run_func: Callable[[Environment, Any], Any]) -> Any:
    """Calls a test with the current environment and a session whose board has its accelerator; returns what the test returns.

    The session is in this process, or, with VTA_LOCAL_SIM_RPC (a port), at a server on this machine, or, with VTA_RPC_HOST and
    VTA_RPC_PORT (9091), at a server elsewhere."""
    env = get_env()
    host, port = os.environ.get("VTA_RPC_HOST"), int(os.environ.get("VTA_RPC_PORT") or 9091)
    local = int(os.environ.get("VTA_LOCAL_SIM_RPC") or 0)
    if local or host:
        remote = rpc.connect("127.0.0.1" if local else str(host), local or port)
        program_fpga(remote)
    else:
        remote = rpc.LocalSession()
        reconfig_runtime(remote)
    return run_func(env, remote)


__all__ = ["run"]
