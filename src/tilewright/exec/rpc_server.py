"""An RPC server: `python -m tilewright.exec.rpc_server --port 9090 --key board`."""

from __future__ import annotations

import argparse
import sys

from tilewright.rpc.running import address, run_until_stopped, show_log
from tilewright.rpc.server import Server
from tilewright.support.errors import TVMError


def parser(prog: str = "python -m tilewright.exec.rpc_server") -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(prog=prog, description=__doc__)
    found.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; 0.0.0.0: all of this machine's (default: 127.0.0.1)"
    )
    found.add_argument("--port", type=int, default=9090, help="first port to try (default: 9090)")
    found.add_argument("--port-end", type=int, default=9199, help="port after the last one to try (default: 9199)")
    found.add_argument("--tracker", help="host:port of a tracker to register with")
    found.add_argument("--key", default="", help="the name that clients ask for; a tracker needs one")
    found.add_argument("--custom-addr", help="the address that the tracker tells clients; default: the one it sees")
    found.add_argument("--load-library", help="libraries to load first, with colons between")
    found.add_argument("--timeout", type=float, help="seconds that a session may last; default: no limit")
    found.add_argument("--key-file", help="a file with a secret that clients and the tracker must know")
    found.add_argument("--silent", action="store_true", help="write nothing but errors")
    return found


def main(argv: list[str] | None = None, prog: str = "python -m tilewright.exec.rpc_server") -> int:
    """Serve until Ctrl-C."""
    options = parser(prog).parse_args(argv)
    if not options.silent:
        show_log()
    try:
        server = Server(
            options.host,
            options.port,
            options.port_end,
            tracker_addr=address(options.tracker) if options.tracker else None,
            key=options.key,
            load_library=options.load_library,
            custom_addr=options.custom_addr,
            silent=options.silent,
            timeout=options.timeout,
            key_file=options.key_file,
        )
    except (TVMError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if not options.silent:
        print(f"serving on {server.host}:{server.port}", flush=True)
    return run_until_stopped(server)


if __name__ == "__main__":
    sys.exit(main())
