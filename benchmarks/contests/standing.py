"""What the latency benchmark's rounds come to: medians, spread, ratios to the best peer, and the tables."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from benchmarks.peers import PEERS


def standing(result: dict[str, Any], peers: list[str]) -> dict[str, Any]:
    """One (model, threads): medians and spread of each contestant, and ours by the best peer of the same precision, and by an earlier
    version of this compiler, which is the best peer only where there is no other."""
    row: dict[str, Any] = {"model": result["model"], "threads": result["threads"], "peers": {}, "ratios": {}}
    for peer in peers:
        held = result["peers"].get(peer, {"error": "not measured"})
        facts = {k: v for k, v in held.items() if k != "rounds"}
        if held.get("rounds"):
            times = np.concatenate([np.array(r) for r in held["rounds"]])
            facts |= {
                "median_ms": float(np.median(times)),
                "p10_ms": float(np.percentile(times, 10)),
                "p90_ms": float(np.percentile(times, 90)),
                "runs": len(times),
            }
        row["peers"][peer] = facts
    for peer in peers:
        others = [p for p in peers if p != peer and PEERS[p].precision == PEERS[peer].precision]
        others = [p for p in others if not PEERS[p].ours or PEERS[p].python]
        others = [p for p in others if "median_ms" in row["peers"][p]]
        if not PEERS[peer].ours or "median_ms" not in row["peers"][peer] or not others:
            continue
        ratios = {p: paired_ratio(result["peers"][peer]["rounds"], result["peers"][p]["rounds"]) for p in others}
        rivals = [p for p in others if not PEERS[p].ours] or others
        best = min(rivals, key=lambda p: row["peers"][p]["median_ms"])
        row["ratios"][peer] = {"best": best, "ratio": ratios[best], "to": ratios}
    return row


def paired_ratio(mine: list[list[float]], theirs: list[list[float]]) -> float:
    """Median over the rounds of the medians' ratio: what disturbs the machine for seconds disturbs both."""
    pairs = zip(mine[::-1], theirs[::-1], strict=False)  # the last rounds of both were run together
    return float(np.median([np.median(a) / np.median(b) for a, b in pairs]))


def geometric_means(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By number of threads and our contestant: the geometric mean and the worst of the ratios to the best peer."""
    groups: dict[tuple[int, str], list[tuple[float, str]]] = {}
    for row in rows:
        for peer, held in row["ratios"].items():
            groups.setdefault((row["threads"], peer), []).append((held["ratio"], row["model"]))
    means = []
    for (threads, peer), found in sorted(groups.items()):
        mean = math.exp(sum(math.log(r) for r, _ in found) / len(found))
        worst, model = max(found)
        means.append(
            {"threads": threads, "contestant": peer, "mean": mean, "worst": worst, "of": model, "models": len(found)}
        )
    return means


def markdown(rows: list[dict[str, Any]], ours: str = "tilewright") -> str:
    """A table of our latency over each peer's, a line a model, the numbers of threads side by side."""
    threads = sorted({row["threads"] for row in rows})
    peers = list(dict.fromkeys(p for row in rows for p in row["ratios"].get(ours, {"to": {}})["to"]))
    counts = " / ".join(map(str, threads))
    lines = [
        "| model | " + " | ".join(f"over {p}, {counts} threads" for p in peers) + " |",
        "|---" * (len(peers) + 1) + "|",
    ]
    for model in dict.fromkeys(row["model"] for row in rows):
        found = {row["threads"]: row["ratios"].get(ours, {"to": {}})["to"] for row in rows if row["model"] == model}
        cells = [" / ".join(f"{found[t][p]:.2f}" if p in found.get(t, {}) else "-" for t in threads) for p in peers]
        lines.append(f"| {model} | " + " | ".join(cells) + " |")
    means = [f"{m['mean']:.2f} ({m['threads']})" for m in geometric_means(rows) if m["contestant"] == ours]
    return "\n".join([*lines, f"\nGeometric mean over the best peer (threads): {', '.join(means)}"])


def console() -> Any:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160)


def show(rows: list[dict[str, Any]], peers: list[str]) -> None:
    from rich.table import Table

    times = Table(
        title="latency in ms: median, half the distance from 10 to 90 percent behind it; ratio to the best peer"
    )
    for column in ("model", "threads", *peers, *[f"{p} / best" for p in peers if PEERS[p].ours], "difference"):
        times.add_column(column, justify="left" if column == "model" else "right")
    for row in rows:
        cells = [row["model"], str(row["threads"]), *[time_cell(row["peers"][p]) for p in peers]]
        for p in peers:
            if PEERS[p].ours:
                held = row["ratios"].get(p)
                color = "red" if held and held["ratio"] > 1 else "green"
                cells.append(f"[{color}]{held['ratio']:.2f}[/] {held['best']}" if held else "")
        mine = [row["peers"][p] for p in peers if PEERS[p].ours and "difference" in row["peers"][p]]
        times.add_row(*cells, ", ".join(f"{f['difference']:.0e}" for f in mine))
    out = console()
    out.print(times)
    for m in geometric_means(rows):
        out.print(
            f"{m['contestant']}, {m['threads']} threads: geometric mean {m['mean']:.3f} of {m['models']} models; "
            f"worst {m['worst']:.2f} ({m['of']})"
        )
    costs = Table(title="seconds to compile (* from caches) / peak MB while compiling / while running")
    for column in ("model", "threads", *peers):
        costs.add_column(column, justify="left" if column == "model" else "right")
    for row in rows:
        costs.add_row(row["model"], str(row["threads"]), *[cost_cell(row["peers"][p]) for p in peers])
    out.print(costs)
    for row in rows:
        for peer, facts in row["peers"].items():
            told = facts.get("error") or facts.get("wrong")
            if told and told != "not measured":
                out.print(f"{row['model']}, {row['threads']} threads, {peer}: {told}", style="red", markup=False)


def time_cell(facts: dict[str, Any]) -> str:
    if "median_ms" not in facts:
        return "-"
    return f"{facts['median_ms']:.2f} ±{(facts['p90_ms'] - facts['p10_ms']) / 2:.2f}"


def cost_cell(facts: dict[str, Any]) -> str:
    if "running_mb" not in facts:
        return "-"
    return f"{facts['compile_s']:.1f}{'' if facts['cold'] else '*'} / {facts['compile_mb']:.0f} / {facts['running_mb']:.0f}"
