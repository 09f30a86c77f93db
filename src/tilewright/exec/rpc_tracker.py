"""A tracker of RPC servers: `python -m tilewright.exec.rpc_tracker --port 9190`."""

from __future__ import annotations

import argparse
import sys

from tilewright.rpc import limits, running
from tilewright.rpc.tracker import Tracker


def parser(prog: str = "python -m tilewright.exec.rpc_tracker") -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(
        prog=prog,
        description="Hand out RPC servers to clients until Ctrl-C, by the servers' keys and the clients' priorities.",
    )
    running.add_place(found, 9190, 9191)
    running.add_guards(found, "servers and clients", "servers and clients")
    limits.add_options(found, limits.TRACKER, "message", "connections", "silence")
    return found


def main(
    args: argparse.Namespace | list[str] | None = None, prog: str = "python -m tilewright.exec.rpc_tracker"
) -> int:
    """Track until Ctrl-C. args: the options that `parser` read, or their words; default: those of the command line."""
    options = args if isinstance(args, argparse.Namespace) else parser(prog).parse_args(args)
    return running.run(
        lambda: Tracker(
            options.host,
            options.port,
            options.port_end,
            options.silent,
            key_file=options.key_file,
            tls_cert=options.tls_cert,
            tls_key=options.tls_key,
            limits=limits.of_options(options, limits.TRACKER),
        ),
        "tracking on",
        options.silent,
    )


if __name__ == "__main__":
    sys.exit(main())
