"""Charts of the benchmarks' results, as PNG; matplotlib draws them (the bench extra has it)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.peers import PEERS

TALLEST = 3.0
"""Higher bars are cut off there, and say their height."""


def draw_latency(rows: list[dict[str, Any]], path: Path) -> None:
    """A group of bars for each model: each peer's latency over ours of the same precision; above 1, ours is faster."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    threads = sorted({row["threads"] for row in rows})
    ours = [p for p in rows[0]["peers"] if PEERS[p].ours] if rows else []
    figure, axes = pyplot.subplots(
        len(threads),
        1,
        figsize=(max(6.0, 1.1 * max(len(rows) / max(len(threads), 1), 1) + 2), 3.6 * len(threads)),
        squeeze=False,
    )
    for axis, t in zip(axes[:, 0], threads, strict=True):
        part = [row for row in rows if row["threads"] == t]
        peers = list(dict.fromkeys(p for row in part for o in ours for p in row["ratios"].get(o, {"to": {}})["to"]))
        width = 0.8 / max(len(peers), 1)
        for i, peer in enumerate(peers):
            heights = []
            for row in part:
                found = [row["ratios"][o]["to"][peer] for o in ours if peer in row["ratios"].get(o, {"to": {}})["to"]]
                heights.append(1 / found[0] if found else 0)
            places = [n + (i - (len(peers) - 1) / 2) * width for n in range(len(part))]
            axis.bar(places, [min(h, TALLEST) for h in heights], width, label=peer)
            for x, h in zip(places, heights, strict=True):
                if h:
                    text = f"{h:.2f}" if h < TALLEST else f"{h:.0f}"
                    axis.text(x, min(h, TALLEST) + 0.03, text, fontsize=6, rotation=90, ha="center", va="bottom")
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_xticks(
            range(len(part)),
            [row["model"].removesuffix("_random") for row in part],
            rotation=25,
            ha="right",
            fontsize=8,
        )
        axis.set_ylabel("latency / Tilewright's")
        axis.set_title(f"{t} thread{'s' * (t > 1)}: above 1, Tilewright is faster", fontsize=10)
        axis.set_ylim(0, axis.get_ylim()[1] * 1.15)
        axis.legend(fontsize=7, ncols=1, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.tight_layout()
    figure.savefig(path, dpi=140)
    pyplot.close(figure)


def draw_roofline(results: list[dict[str, Any]], path: Path) -> None:
    """A picture for each (model, threads): kernels by arithmetic intensity and rate, as large as their share of the time."""
    import matplotlib

    matplotlib.use("Agg")
    import numpy as np
    from matplotlib import pyplot

    columns = min(3, len(results))
    lines = -(-len(results) // columns)
    figure, axes = pyplot.subplots(lines, columns, figsize=(5.2 * columns, 4 * lines), squeeze=False)
    for axis in axes.flat[len(results) :]:
        axis.set_visible(False)
    for axis, s in zip(axes.flat, results, strict=False):
        kernels = [k for k in s["kernels"] if k["flops"]]
        intensity = [k["flops"] / max(k["constant_bytes"] + k["other_bytes"], 1) for k in kernels]
        x = np.geomspace(min([*intensity, 0.1]) / 2, max([*intensity, 100.0]) * 2, 200)
        for level, rate in s["bandwidth_gbs"].items():
            axis.plot(x, np.minimum(x * rate, s["peak_gflops"]), linewidth=1, label=f"{level}: {rate:.0f} GB/s")
        colors = ["tab:blue" if k["bound"] == "FMA" else "tab:orange" for k in kernels]
        sizes = [max(4.0, 600 * k["share"]) for k in kernels]
        axis.scatter(intensity, [k["gflops"] for k in kernels], s=sizes, c=colors, alpha=0.5)
        axis.set(xscale="log", yscale="log", xlabel="FLOP / byte", ylabel="GFLOP/s")
        axis.set_title(
            f"{s['model']}, {s['threads']} threads: {s['products_of_peak']:.0%} of {s['peak_gflops']:.0f} GFLOP/s in products",
            fontsize=9,
        )
        axis.legend(fontsize=7, loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=140)
    pyplot.close(figure)
