"""An RPC server: `python -m tilewright.exec.rpc_server --port 9090 --key board`."""

from __future__ import annotations

import argparse
import sys

from tilewright.micro.offers import offer_sessions
from tilewright.rpc import limits, running
from tilewright.rpc.server import Server


def parser(prog: str = "python -m tilewright.exec.rpc_server") -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(
        prog=prog,
        description="Serve this machine to RPC clients until Ctrl-C. Whoever can connect can run code here (--key-file: only who has the"
        " same secret).",
    )
    running.add_place(found, 9090, 9199)
    found.add_argument(
        "--through-proxy",
        action="store_true",
        help="connect to a proxy at --host and --port, and serve the clients that it sends",
    )
    running.add_tracker(found, "")
    found.add_argument("--key", default="", help="the name that clients ask for; trackers and proxies need one")
    found.add_argument("--load-library", metavar="FILES", help="libraries to load first, with colons between")
    found.add_argument("--timeout", type=float, metavar="N", help="seconds that a session may last (default: no limit)")
    found.add_argument(
        "--fork", action=argparse.BooleanOptionalAction, help="ignored: each session is a process of its own"
    )
    running.add_guards(found, "clients, the tracker and the proxy", "clients", "the tracker or the proxy")
    limits.add_options(found, limits.SERVER, "message", "connections", "sessions", "silence", "idle", "disk")
    return found


def main(args: argparse.Namespace | list[str] | None = None, prog: str = "python -m tilewright.exec.rpc_server") -> int:
    """Serve until Ctrl-C. args: the options that `parser` read, or their words; default: those of the command line."""
    options = args if isinstance(args, argparse.Namespace) else parser(prog).parse_args(args)
    offer_sessions()
    return running.run(
        lambda: Server(
            options.host,
            options.port,
            options.port_end,
            is_proxy=options.through_proxy,
            tracker_addr=running.tracker_of(options),
            key=options.key,
            load_library=options.load_library,
            custom_addr=options.custom_addr,
            silent=options.silent,
            timeout=options.timeout,
            key_file=options.key_file,
            tls_cert=options.tls_cert,
            tls_key=options.tls_key,
            tls_ca=options.tls_ca,
            limits=limits.of_options(options, limits.SERVER),
        ),
        "serving at the proxy" if options.through_proxy else "serving on",
        options.silent,
    )


if __name__ == "__main__":
    sys.exit(main())
