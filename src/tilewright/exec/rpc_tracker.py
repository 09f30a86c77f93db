"""A tracker of RPC servers: `python -m tilewright.exec.rpc_tracker --port 9190`."""

from __future__ import annotations

import argparse
import sys

from tilewright.rpc.running import run_until_stopped, show_log
from tilewright.rpc.tracker import Tracker
from tilewright.support.errors import TVMError


def parser(prog: str = "python -m tilewright.exec.rpc_tracker") -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(prog=prog, description=__doc__)
    found.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; 0.0.0.0: all of this machine's (default: 127.0.0.1)"
    )
    found.add_argument("--port", type=int, default=9190, help="first port to try (default: 9190)")
    found.add_argument("--port-end", type=int, default=9191, help="port after the last one to try (default: 9191)")
    found.add_argument("--key-file", help="a file with a secret that servers and clients must know")
    found.add_argument("--silent", action="store_true", help="write nothing but errors")
    return found


def main(argv: list[str] | None = None, prog: str = "python -m tilewright.exec.rpc_tracker") -> int:
    """Track until Ctrl-C."""
    options = parser(prog).parse_args(argv)
    if not options.silent:
        show_log()
    try:
        tracker = Tracker(options.host, options.port, options.port_end, options.silent, key_file=options.key_file)
    except (TVMError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if not options.silent:
        print(f"tracking on {tracker.host}:{tracker.port}", flush=True)
    return run_until_stopped(tracker)


if __name__ == "__main__":
    sys.exit(main())
