"""`tilewright cache`: the on-disk cache of compiled kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.cli import cli
from tilewright.cli.options import shown

if TYPE_CHECKING:
    from tilewright.cli.screen import Form


@cli.group("cache")
def cache_group() -> None:
    """Show or clear the on-disk cache of compiled kernels.

    \b
    tilewright cache info --json
    tilewright cache clear
    """


@cache_group.command("info")
@shown
def cache_info(form: Form) -> None:
    """Show the directory, size and limit of the cache."""
    from tilewright.cli.screen import in_bytes
    from tilewright.support.cache import default_cache

    cache = default_cache()
    entries = cache.entries()
    used = sum([e.size for e in entries])
    facts = {"path": str(cache.path), "entries": len(entries), "bytes": used, "most_bytes": cache.limit}
    text = f"{cache.path}: {len(entries)} entries, {in_bytes(used)} of at most {in_bytes(cache.limit)}"
    form.show(facts, [facts], lambda: [text])


@cache_group.command("clear")
@shown
def cache_clear(form: Form) -> None:
    """Remove all entries."""
    from tilewright.support.cache import default_cache

    facts = {"removed": default_cache().clear()}
    form.show(facts, [facts], lambda: [f"removed {facts['removed']} entries"])
