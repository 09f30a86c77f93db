"""What measurements on a GPU come to: ratios, means, the figures that are held to, tables."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.gpus.cases import Case

Rounds = Sequence[Sequence[float]]


class Result(NamedTuple):
    """A case's times in milliseconds, round by round; error: why there are none of ours, or of the peer's."""

    case: Case
    ours: Rounds = ()
    peer: Rounds = ()
    error: str = ""

    @property
    def ratio(self) -> float | None:
        """The peer's time over ours, above 1 where ours is faster: the median over the rounds of the medians' ratio, since what disturbs
        the device for a while disturbs both. None where one is missing."""
        if self.error or not self.ours or not self.peer:
            return None
        pairs = zip(self.ours, self.peer, strict=False)
        return statistics.median([statistics.median(theirs) / statistics.median(mine) for mine, theirs in pairs])


def median(rounds: Rounds) -> float | None:
    """The median of all times."""
    times = [t for part in rounds for t in part]
    return statistics.median(times) if times else None


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum([math.log(v) for v in values]) / len(values))


class Held(NamedTuple):
    """A figure that is held to. cases: of how many it is; measured: how many of them there are."""

    what: str
    required: float
    figure: float | None
    measured: int
    cases: int

    @property
    def state(self) -> str:
        """ "met" or "missed"; "open" where not all cases were measured."""
        if self.figure is None or self.measured < self.cases:
            return "open"
        return "met" if self.figure >= self.required else "missed"


def held(results: Sequence[Result], bandwidth: float) -> list[Held]:
    """The figures, as shares of the peer's speed, and for operators bound by memory of the measured bandwidth (bytes a second)."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.case.group, []).append(result)
    found = [_held(f"{r.case.name} over cuBLAS", 0.90, [r.ratio]) for r in groups.get("gemm", ())]
    for group, what, required in (
        ("gemm of models", "30 products of models over cuBLAS, geometric mean", 0.90),
        ("batched gemm", "batched products over cuBLAS, geometric mean", 0.90),
        ("gemm fp32", "float32 products over cuBLAS without tf32, geometric mean", 0.95),
        ("convolution", "convolutions of ResNet-50 over cuDNN, geometric mean", 0.95),
        ("attention", "attention over torch's kernels, geometric mean", 0.90),
    ):
        if group in groups:
            found.append(_held(what, required, [r.ratio for r in groups[group]]))
    if "memory" in groups:
        shares = [share_of_bandwidth(r, bandwidth) for r in groups["memory"]]
        found.append(
            _held("operators bound by memory, the least share of the bandwidth measured", 0.90, shares, least=True)
        )
    for r in groups.get("models", ()):
        found.append(_held(f"{r.case.name} over torch.compile(max-autotune)", 1.0, [r.ratio]))
    return found


def _held(what: str, required: float, figures: Sequence[float | None], least: bool = False) -> Held:
    known = [f for f in figures if f is not None]
    figure = (min(known) if least else geometric_mean(known)) if known else None
    return Held(what, required, figure, len(known), len(figures))


def share_of_bandwidth(result: Result, bandwidth: float) -> float | None:
    """The bytes that a case must move, over its time and the bandwidth."""
    time = median(result.ours)
    return None if result.error or not time else result.case.bytes / (time / 1e3) / bandwidth


def facts(results: Sequence[Result], device: Mapping[str, Any], bandwidth: float) -> dict[str, Any]:
    """Everything, for JSON."""
    return {
        "device": dict(device),
        "bandwidth": bandwidth,
        "results": [
            {
                "name": r.case.name,
                **r.case._asdict(),
                "ours_ms": median(r.ours),
                "peer_ms": median(r.peer),
                "ratio": r.ratio,
                "rounds": {"ours": [list(t) for t in r.ours], "peer": [list(t) for t in r.peer]},
                "error": r.error,
            }
            for r in results
        ],
        "held": [{**h._asdict(), "state": h.state} for h in held(results, bandwidth)],
    }


def read(saved: Mapping[str, Any], cases: Sequence[Case]) -> dict[str, Result]:
    """The results in the facts of an earlier run, by the names of cases that there still are; those that failed are left out."""
    known = {case.name: case for case in cases}
    return {
        r["name"]: Result(known[r["name"]], r["rounds"]["ours"], r["rounds"]["peer"])
        for r in saved["results"]
        if r["name"] in known and not r["error"]
    }


def lines(results: Sequence[Result], bandwidth: float) -> list[str]:
    """The tables: every case, then the figures that are held to."""
    found = [f"{'case':58} {'ours us':>10} {'peer us':>10} {'ratio':>6} {'rate':>14}"]
    group = ""
    for r in results:
        if r.case.group != group:
            group = r.case.group
            found.append(f"-- {group}")
        if r.error:
            found.append(f"{r.case.name:58} {r.error}")
            continue
        ours, peer, ratio = median(r.ours), median(r.peer), r.ratio
        cells = [f"{1e3 * t:10.1f}" if t is not None else f"{'':10}" for t in (ours, peer)]
        found.append(f"{r.case.name:58} {cells[0]} {cells[1]} {ratio or 0:6.2f} {_rate(r, ours):>14}")
    found += ["", f"bandwidth measured: {bandwidth / 1e9:.0f} GB/s", ""]
    for h in held(results, bandwidth):
        figure = "-" if h.figure is None else f"{h.figure:.3f}"
        found.append(f"{h.what:88} {figure:>6}  held to {h.required:.2f}: {h.state} ({h.measured} of {h.cases})")
    return found


def _rate(r: Result, ours: float | None) -> str:
    if not ours:
        return ""
    if r.case.group == "memory":
        return f"{r.case.bytes / ours / 1e6:.0f} GB/s"
    return f"{r.case.operations / ours / 1e9:.1f} TFLOP/s" if r.case.operations else ""
