"""`tilewright log`: the fastest records, files joined, shortened and compared."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import command
from tilewright.scheduling.database import append_plan
from tilewright.tuning import log
from tilewright.tuning.measure import Failure
from tilewright.tuning.record import Record, load


def record(name: str, us: float, tile: int, untuned: float | None = 20.0) -> Record:
    base = None if untuned is None else untuned * 1e-6
    return Record(f"key of {name}", name, "llvm", {"tile": tile}, (us * 1e-6,), untuned=base, time=1.0)


def written(path: Path, *records: Record) -> Path:
    log.append(path, [r.to_json() for r in records])
    return path


def test_best_and_diff(tmp_path: Path) -> None:
    failed = Record("key of dense", "dense", "llvm", {"tile": 9}, failure=Failure.RUN, message="died", time=1.0)
    a = written(tmp_path / "a", record("dense", 12.0, 1), record("dense", 10.0, 2), failed, record("pool", 21.0, 1))
    a.write_bytes(a.read_bytes() + b'{"version"')
    b = written(tmp_path / "b", record("dense", 8.0, 3), record("relu", 1.0, 1, None))
    found = command("log", "best", str(a), "--json")
    assert found.err.startswith(f"warning: {a}:5 is left out: it is no JSON (")
    kernels = json.loads(found.out)["kernels"]
    names = ("kernel", "us", "ratio", "used", "measured", "failed", "candidate")
    assert [[k[n] if n not in ("us", "ratio") else round(k[n], 6) for n in names] for k in kernels] == [
        ["dense", 10.0, 0.5, True, 3, 1, {"tile": 2}],
        ["pool", 21.0, 1.05, False, 1, 0, {"tile": 1}],
    ]
    assert 'dense,llvm,10.0,20.0,0.5,True,3,1,"{""tile"": 2}"' in command("log", "best", str(a), "--csv").out
    shown = command("log", "best", str(a), str(b)).out
    assert (
        shown.startswith("a, b: llvm\n")
        and "│ dense  │  8.0 │       20.0 │  0.40 │  yes │        4 │      1 │" in shown
    )
    assert "builds use 2 of these 3 records: a kernel must be faster than the untuned one by 3% at least" in shown
    other = written(tmp_path / "c", Record("key of dense", "dense", "c", {"tile": 1}, (1e-5,), untuned=2e-5))
    assert "│ dense  │ c      │" in command("log", "best", str(a), str(other)).out
    rows = json.loads(command("log", "diff", str(a), str(b), "--json").out)["kernels"]
    assert [(r["kernel"], r["before_us"] is None, r["after_us"] is None, r["ratio"]) for r in rows] == [
        ("dense", False, False, 0.8),
        ("pool", False, True, None),
        ("relu", True, False, None),
    ]


def test_decisions_stay(tmp_path: Path) -> None:
    """Those about programs, and about kernels by hand, are no measurements."""
    a, both, small = (tmp_path / name for name in ("a.records", "both.records", "small.records"))
    for panel in (16, 32):
        append_plan(a, "dense(1x512x1000, 32 bits)", "dense", "llvm", {"panel": panel})
    done = command("log", "merge", str(a), str(a), "-o", str(both))
    assert (done.out, done.err) == (f"{both}: 0 records\n", "")
    assert command("log", "prune", str(both), "-o", str(small)).code == 0
    assert [json.loads(line)["plan"] for line in small.read_text().splitlines()] == [{"panel": 32}]
    assert command("log", "best", str(a)).err == ""


def test_merge_and_prune(tmp_path: Path) -> None:
    a = written(tmp_path / "a", record("dense", 12.0, 1), record("dense", 10.0, 2))
    b = written(tmp_path / "b", record("dense", 10.0, 2), record("dense", 8.0, 3), record("pool", 3.0, 1))
    both, least = tmp_path / "both", tmp_path / "least"
    assert command("log", "merge", str(a), str(b), "-o", str(both)).out == f"{both}: 4 records\n"
    assert command("log", "prune", str(both), "-o", str(least)).out == f"{least}: 2 of 4 records\n"
    assert load(least) == ([record("dense", 8.0, 3), record("pool", 3.0, 1)], [])
    missing = command("log", "merge", str(a), "-o", str(tmp_path / "none" / "x"))
    assert missing.code != 0 and "the folder" in missing.err
