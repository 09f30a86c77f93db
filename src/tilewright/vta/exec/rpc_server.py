"""A server with a simulated board: `python -m tilewright.vta.exec.rpc_server --port 9091`.

Each session has a board of its own. It gets its accelerator from `vta.reconfig_runtime`, or from the first program that it is given."""

from __future__ import annotations

import sys

from tilewright.exec import rpc_server
from tilewright.vta.libinfo import find_libvta


def server_start() -> None:
    """What a server needs before sessions come. RuntimeError where this runtime has no simulators."""
    find_libvta()


def main(args: list[str] | None = None) -> int:
    """Serve until Ctrl-C. args: the words of the command line; the options are those of `tilewright.exec.rpc_server`."""
    server_start()
    return rpc_server.main(sys.argv[1:] if args is None else args, prog="python -m tilewright.vta.exec.rpc_server")


if __name__ == "__main__":
    sys.exit(main())
