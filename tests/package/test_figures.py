"""Figures stand in docs/benchmarks.md. What README.md quotes of them is the same."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def rows_under(text: str, heading: str) -> dict[str, list[str]]:
    """The first table below a heading: its cells by the first one."""
    below = text[text.index(f"{heading}\n") :].splitlines()[1:]
    first = next(i for i, line in enumerate(below) if line.startswith("|"))
    rows = {}
    for line in below[first + 2 :]:
        if not line.startswith("|"):
            break
        name, *cells = [c.strip() for c in line.strip("|").split("|")]
        rows[name] = cells
    return rows


def test_the_table_of_the_readme() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    latency, memory = rows_under(text, "### Batch 1, float32"), rows_under(text, "## Memory")
    quoted = rows_under((ROOT / "README.md").read_text(), "## How fast")
    assert len(quoted) >= 5
    assert quoted == {name: [*latency[name], memory[name][-1]] for name in quoted}


def test_ratios_of_memory() -> None:
    for name, cells in rows_under((ROOT / "docs" / "benchmarks.md").read_text(), "## Memory").items():
        _, library, peer, _, ratio = map(float, cells)
        # The megabytes are rounded.
        assert (library - 0.5) / (peer + 0.5) - 0.005 <= ratio <= (library + 0.5) / (peer - 0.5) + 0.005, name


def test_the_readme_quotes_no_other_figures() -> None:
    prose = re.sub(r"^\|.*$|^```.*?^```$", "", (ROOT / "README.md").read_text(), flags=re.M | re.S)
    assert not re.findall(r"\b\d+\.\d+ (?:s|ms|MB|%)|\b0\.\d\d\b", prose)
