"""Times that no machine can reach, and what is said of failures. A record with such a time would displace all others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from tilewright.support.errors import TVMError
from tilewright.target import Target

LEAST_SECONDS = 1e-9
"""Of a call: no function is called in less."""
HERTZ = 6e9
FLOPS_A_CYCLE = {"vectors": 4, "matrices": 2048}
"""Operations of a core: of two multiply-adds for each lane; of matrix units (Intel AMX, bfloat16)."""
DEVICE_FLOPS = 1e16
"""Of the largest accelerator, in any type."""
FASTER = 10.0
"""What is more than so many times as fast as the peak is impossible. A peak is rough: clocks, lanes and cores of other machines are not
known exactly."""
CORES = 32
"""Of a machine of which it is not known."""


def peak_flops(target: Target | str | None, bits: int = 32, cores: int | None = None) -> float:
    """Operations a second that a machine of a target cannot exceed. bits: of the elements; below 32, matrix units may be used. cores: of
    the machine, if they are known."""
    try:
        made = Target(target) if isinstance(target, str) else target
    except (TVMError, ValueError):
        # Records may be of targets that are not known here.
        return DEVICE_FLOPS
    if made is None or "cpu" not in made.keys:
        return DEVICE_FLOPS
    lanes = max(made.cpu.vector_bits, 128) // bits if bits >= 32 else 0
    cycle = FLOPS_A_CYCLE["vectors"] * lanes or FLOPS_A_CYCLE["matrices"]
    return float(HERTZ * cycle * max(cores or CORES, 1))


def why_impossible(seconds: float, flops: float = 0.0, peak: float = DEVICE_FLOPS) -> str:
    """Why a call that does so many operations cannot take so many seconds; "" if it can. peak: of the machine, operations a second."""
    if not math.isfinite(seconds) or seconds <= 0:
        return f"{seconds:g} s is no time of a call"
    if seconds < LEAST_SECONDS:
        return f"{seconds:g} s is less than any call takes"
    if flops > FASTER * peak * seconds:
        return (
            f"{seconds:g} s for {flops:g} operations are {flops / seconds / 1e9:.3g} GFLOPS, and machines of the target have at most"
            f" {peak / 1e9:.3g}"
        )
    return ""


def reasons(failures: Iterable[tuple[str, str]], shown: int = 3) -> str:
    """The most frequent kinds of failures with their messages, each in a line with its number, most frequent first."""
    counts = Counter([(kind, _first_line(message)) for kind, message in failures])
    lines = [
        f"{count} x {kind}: {text}" if text else f"{count} x {kind}" for (kind, text), count in counts.most_common()
    ]
    if len(lines) > shown:
        rest = sum([count for _, count in counts.most_common()[shown:]])
        lines = [*lines[:shown], f"{rest} x other reasons"]
    return "".join([f"\n  {line}" for line in lines])


def _first_line(message: str) -> str:
    return message.strip().partition("\n")[0]
