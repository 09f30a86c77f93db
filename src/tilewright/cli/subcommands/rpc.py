"""`tilewright rpc`: servers on boards, the tracker that hands them out, and the proxy between networks."""

from __future__ import annotations

import click

from tilewright.cli import cli

PASSED = {"ignore_unknown_options": True, "help_option_names": []}
"""The programs of `tilewright.exec` read their options themselves."""


@cli.group("rpc")
def rpc_group() -> None:
    """Run models on other machines: servers on boards, a tracker that hands them out, a proxy between networks.

    \b
    tilewright rpc server --host 0.0.0.0 --port 9090 --key board
    tilewright rpc tracker --host 0.0.0.0 --port 9190
    tilewright rpc server --host 0.0.0.0 --key board --tracker farm:9190
    tilewright rpc proxy --host 0.0.0.0 --port 9090 --tracker farm:9190
    tilewright rpc status --host farm --port 9190
    """


@rpc_group.command("server", short_help="Serve this machine to clients.", context_settings=PASSED)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def rpc_server(options: tuple[str, ...]) -> None:
    """Serve this machine: one client after the other, each in a process of its own."""
    from tilewright.exec import rpc_server

    raise SystemExit(rpc_server.main(list(options), "tilewright rpc server"))


@rpc_group.command("tracker", short_help="Hand out servers to clients, by key and priority.", context_settings=PASSED)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def rpc_tracker(options: tuple[str, ...]) -> None:
    """Hand out servers to clients, by key and priority."""
    from tilewright.exec import rpc_tracker

    raise SystemExit(rpc_tracker.main(list(options), "tilewright rpc tracker"))


@rpc_group.command("proxy", short_help="Join servers and clients of different networks.", context_settings=PASSED)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def rpc_proxy(options: tuple[str, ...]) -> None:
    """Join servers and clients that cannot reach each other, and browsers."""
    from tilewright.exec import rpc_proxy

    raise SystemExit(rpc_proxy.main(list(options), "tilewright rpc proxy"))


@rpc_group.command("status", context_settings=PASSED)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def rpc_status(options: tuple[str, ...]) -> None:
    """Show the servers of a tracker, and who waits."""
    from tilewright.exec import query_rpc_tracker

    raise SystemExit(query_rpc_tracker.main(list(options), "tilewright rpc status"))
