"""A proxy for RPC servers and clients that cannot reach each other, and for browsers: `python -m tilewright.exec.rpc_proxy --port 9090`."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

from tilewright.rpc import limits, running
from tilewright.rpc.proxy import Proxy
from tilewright.support.errors import TVMError

EXAMPLE = "rpc_server.html"
"""The page of the JavaScript package that serves."""


def parser(prog: str = "python -m tilewright.exec.rpc_proxy") -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(
        prog=prog,
        description="Join RPC servers and clients that cannot connect to each other, until Ctrl-C. Browsers connect by WebSockets.",
    )
    running.add_place(found, 9090, 9199)
    running.add_tracker(found, "the servers ")
    found.add_argument(
        "--timeout-client",
        type=float,
        default=600,
        metavar="N",
        help="seconds that a client waits for a server (default: 600)",
    )
    found.add_argument(
        "--timeout-server",
        type=float,
        default=600,
        metavar="N",
        help="seconds that a server waits for a client; then it connects again (default: 600)",
    )
    web = found.add_argument_group("browsers")
    web.add_argument(
        "--web-port", type=int, default=8888, help="port of WebSockets (at /ws) and pages; 0: none (default: 8888)"
    )
    web.add_argument("--index-page", metavar="FILE", help="the page at /")
    web.add_argument(
        "--resource", action="append", default=[], metavar="[FOLDER/=]FILE", help="a further file, and where it appears"
    )
    web.add_argument(
        "--example-rpc",
        type=int,
        nargs="?",
        const=1,
        default=0,
        metavar="1",
        help="serve a page at / whose browser is a server, with the JavaScript package, which is built for it",
    )
    web.add_argument(
        "--web-origin", action="append", default=[], metavar="URL", help="pages of this origin may connect; *: all may"
    )
    running.add_guards(found, "servers, clients and the tracker", "servers and clients", "the tracker")
    limits.add_options(found, limits.PROXY, "connections", "silence")
    return found


def _resource(text: str) -> tuple[str, str]:
    folder, separator, file = text.rpartition("=")
    return (folder if separator else "/"), file


def _example(folder: Path) -> list[str]:
    """The files of the JavaScript package, in a folder: first the page that serves. Raises TVMError where it cannot be built."""
    from tilewright.deploy.machines import machine_of
    from tilewright.deploy.native_build import build_runtime

    build_runtime(machine_of("wasm32"), folder)
    return sorted(map(str, folder.iterdir()), key=lambda file: not file.endswith(EXAMPLE))


def main(args: argparse.Namespace | list[str] | None = None, prog: str = "python -m tilewright.exec.rpc_proxy") -> int:
    """Join servers and clients until Ctrl-C. args: the options that `parser` read, or their words; default: those of the command line."""
    options = args if isinstance(args, argparse.Namespace) else parser(prog).parse_args(args)
    index, resources = options.index_page, [_resource(text) for text in options.resource]

    def start() -> Proxy:
        return Proxy(
            options.host,
            options.port,
            options.port_end,
            options.web_port,
            options.timeout_client,
            options.timeout_server,
            running.tracker_of(options),
            index,
            resources,
            options.web_origin,
            options.custom_addr,
            options.silent,
            key_file=options.key_file,
            tls_cert=options.tls_cert,
            tls_key=options.tls_key,
            tls_ca=options.tls_ca,
            limits=limits.of_options(options, limits.PROXY),
        )

    with contextlib.ExitStack() as files:
        if options.example_rpc:
            if not options.web_port:
                print("error: --example-rpc serves a page, which needs a --web-port", file=sys.stderr)
                return 1
            if not options.silent:
                print("building the JavaScript package (minutes, the first time)", flush=True)
            try:
                page, *others = _example(
                    Path(files.enter_context(tempfile.TemporaryDirectory(prefix="tilewright-proxy-")))
                )
            except TVMError as error:
                print(f"error: {error}", file=sys.stderr)
                return 1
            index, resources = index or page, [*(("/", file) for file in others), *resources]
            if not options.silent:
                print(f"a page that serves: http://{options.host}:{options.web_port}/", flush=True)
        return running.run(start, "joining on", options.silent)


if __name__ == "__main__":
    sys.exit(main())
