"""What a configuration lacks where no tile fits."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.vta.configuration import Configuration


def no_tile_fits(needs: Mapping[str, int], config: Configuration, what: str = "one result") -> str:
    """The message of the error. needs: elements of each memory for `what` of one block, of which some are more than the memory has."""
    lacking = []
    for m, n in needs.items():
        wanted, there = (k * config.element_bytes(m) for k in (n, config.depth(m)))
        if wanted > there:
            lacking.append(f"{wanted} bytes of {m}, which has {there} ({wanted - there} are missing)")
    return f"no tile fits into the accelerator: {what} of one block needs {' and '.join(lacking)}"


__all__ = ["no_tile_fits"]
