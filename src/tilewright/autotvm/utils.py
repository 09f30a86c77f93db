"""Helpers under their classic names."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tilewright.tir import IntImm

logger = logging.getLogger("autotvm")

EmptyContext = contextlib.nullcontext
"""A context that does nothing."""

SI_PREFIXES = "yzafpn\N{MICRO SIGN}m kMGTPEZY"
"""The prefix of 10 ** (3 * i + YOCTO_EXP10), by its place i."""
YOCTO_EXP10 = -24


def get_func_name(func: Any) -> str:
    """The name of a function, or of the object that is called as one."""
    return str(func.func_name if hasattr(func, "func_name") else getattr(func, "__qualname__", type(func).__name__))


def get_rank(values: Sequence[float]) -> np.ndarray[Any, Any]:
    """The place of each value when all are sorted, the largest first; places begin with 1."""
    order = np.argsort(-np.asarray(values, dtype=float), kind="stable")
    rank = np.empty(len(order), dtype=int)
    rank[order] = np.arange(1, len(order) + 1)
    return rank


def pool_map(
    func: Callable[[Any], Any], args: Sequence[Any], batch_size: int, verbose: bool = False, pool: Any = None
) -> np.ndarray[Any, Any] | None:
    """The results of a function for arguments, of which `batch_size` are given to the pool at a time, as one array; None for no arguments.

    pool: has `map`; by default, threads.
    """
    chosen = pool if pool is not None else ThreadPoolExecutor()
    found: list[Any] = []
    try:
        for begin in range(0, len(args), batch_size):
            if verbose:
                logger.info("mapping %d of %d", begin, len(args))
            found += chosen.map(func, args[begin : begin + batch_size])
    finally:
        if pool is None:
            chosen.shutdown()
    return np.array(found) if found else None


def get_const_int(exp: Any) -> int:
    """The value of a constant. Raises ValueError for other expressions."""
    if isinstance(exp, IntImm):
        return int(exp.value)
    if isinstance(exp, (int, np.integer)):
        return int(exp)
    raise ValueError(f"a constant integer is needed here, but the expression {exp} is symbolic")


def get_const_tuple(in_tuple: Sequence[Any]) -> tuple[int, ...]:
    """The values of constants. Raises ValueError for other expressions."""
    return tuple([get_const_int(e) for e in in_tuple])


def format_si_prefix(x: float, si_prefix: str) -> float:
    """A number in units of a prefix, such as G: 2.5e9 is 2.5. Raises ValueError for an unknown prefix."""
    place = SI_PREFIXES.find(si_prefix.replace("u", "\N{MICRO SIGN}")) if len(si_prefix) == 1 else -1
    if place < 0:
        raise ValueError(f"{si_prefix!r} is no prefix of units; prefixes are {', '.join(SI_PREFIXES)}")
    return float(x * 10.0 ** -(place * 3 + YOCTO_EXP10))
