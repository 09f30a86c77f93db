"""`tilewright cache`: the on-disk cache."""

from __future__ import annotations

import click

from tilewright.cli import cli


@cli.group("cache")
def cache_group() -> None:
    """Look at or clear the on-disk cache of compiled kernels."""


@cache_group.command("info")
def cache_info() -> None:
    """Show where the cache is and how full."""
    from tilewright.cli.screen import in_bytes
    from tilewright.support.cache import default_cache

    cache = default_cache()
    entries = cache.entries()
    used = sum([e.size for e in entries])
    click.echo(f"{cache.path}: {len(entries)} entries, {in_bytes(used)} of at most {in_bytes(cache.limit)}")


@cache_group.command("clear")
def cache_clear() -> None:
    """Remove every entry."""
    from tilewright.support.cache import default_cache

    click.echo(f"removed {default_cache().clear()} entries")
