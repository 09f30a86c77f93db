"""`python -m tests.fuzz.killed_tuning --count 50`: `tilewright tune` is ended at random moments (kill -9, SIGTERM, Ctrl-C).

Each line of the log is readable, at most the measurement that ran is lost, no candidate is measured again, and nothing is left: no
process, and no temporary folder once the next session has begun. Every fifth time two sessions write one log."""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.fuzz.caches import own_cache
from tests.fuzz.progress import Progress
from tilewright.support.version import VERSION
from tilewright.tuning import log
from tilewright.tuning.record import Record, load

OPERATORS = ("relu(dense(16x64, 128x64))", "conv2d(1x16x14x14, 24x16x3x3, padding=1)", "dense(5x37, 41x37)")
KILLS_OF_A_LOG = 10
"""Kills until the next log begins: a search that has found all it can ends by itself."""
MOST_LINES = 6
"""A session is killed when it has added at most so many lines."""
PATIENCE = 300.0
"""Seconds that a session may take to get there on a busy machine."""
GONE_IN = 10.0
"""Seconds after which the processes of a session that was killed are gone."""
MEASURED = "KILLED_TUNING_MEASURED"
"""The variable that names the file in which a session notes what it has measured, besides its log."""

FULL = """
import resource, signal
from tilewright.tuning import log
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for _ in range(100):
    log.append({path!r}, [{line!r}])
"""


def session() -> None:
    """`tilewright tune`, which notes each measurement of a candidate as soon as it is made."""
    from tilewright.__main__ import main as tilewright
    from tilewright.tuning.measure import Measured, Run
    from tilewright.tuning.running.local import LocalRunner
    from tilewright.tuning.session import Session

    notes = os.open(os.environ[MEASURED], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    measure, tune = LocalRunner.run, Session.run
    begun: list[bool] = []

    def noted(runner: LocalRunner, runs: list[Run]) -> list[Measured]:
        found = measure(runner, runs)
        if begun:
            os.write(notes, b"." * len(runs))
        return found

    def run(self: Session, *args: Any) -> None:
        self.measure_untuned()
        begun.append(True)
        tune(self, *args)

    LocalRunner.run = noted  # type: ignore[method-assign,assignment]
    Session.run = run  # type: ignore[method-assign]
    tilewright()


class Tuned:
    """A folder with a log, and sessions that write it."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder, self.rng = folder, rng
        self.log, self.temporary = folder / "operators.records", folder / "temporary"
        self.temporary.mkdir(parents=True)
        self.started = 0

    def start(self, *options: str) -> tuple[subprocess.Popen[bytes], Path]:
        """A session, and the file of its notes."""
        self.started += 1
        notes = self.folder / f"measured-{self.started}"
        shapes = [word for operator in OPERATORS for word in ("--shapes", operator)]
        command = [sys.executable, "-m", "tests.fuzz.killed_tuning", "--session", "tune", *shapes, *options]
        environment = {**os.environ, "TMPDIR": str(self.temporary), MEASURED: str(notes)}
        with open(self.folder / f"errors-{self.started}", "wb") as errors:
            process = subprocess.Popen(
                [*command, "--threads", "1", "--log", str(self.log)],
                stdout=errors, stderr=errors, env=environment, start_new_session=True,
            )  # fmt: skip
        return process, notes

    def lines(self) -> int:
        return self.log.read_bytes().count(b"\n") if self.log.exists() else 0

    def kill(self, sessions: int, number: int) -> list[str]:
        """Starts sessions and ends them at a random moment. What is wrong then."""
        before = self.lines()
        started = [self.start("--time", "1h") for _ in range(sessions)]
        ends = time.monotonic() + PATIENCE
        early = self.rng.random() < 0.15
        if early:
            time.sleep(self.rng.uniform(0, 8))
        else:
            wanted = before + self.rng.randint(1, MOST_LINES)
            while self.lines() < wanted and time.monotonic() < ends and any([p.poll() is None for p, _ in started]):
                time.sleep(0.02)
            time.sleep(self.rng.uniform(0, 0.4))
        found = []
        for process, _ in started:
            if process.poll() is not None:
                found.append(f"a session ended by itself with status {process.poll()}: {self.words()}")
            process.send_signal(number)
        for process, _ in started:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                found.append(f"it does not end within 60 s of signal {number}")
                process.kill()
                process.wait()
        measured = sum([notes.stat().st_size if notes.exists() else 0 for _, notes in started])
        lost = measured - (self.lines() - before)
        if lost > sessions:
            found.append(f"{lost} measurements of {sessions} sessions are lost")
        # Signals that come while modules are loaded end the process at once.
        return found + self.left(signal.SIGKILL if early else number)

    def words(self) -> str:
        """The last lines that the last session wrote."""
        return (self.folder / f"errors-{self.started}").read_text(errors="replace")[-500:]

    def left(self, number: int) -> list[str]:
        """What processes leave, and what is wrong with the log."""
        ends = time.monotonic() + GONE_IN
        while (alive := self.processes()) and time.monotonic() < ends:
            time.sleep(0.1)
        found = [f"processes are left: {alive}"] if alive else []
        if number != signal.SIGKILL and (rest := self.folders()):
            found.append(f"folders are left: {rest}")
        _, refused = load(self.log) if self.log.exists() else ([], [])
        return found + [f"line {r.number} of the log: {r.why}" for r in refused]

    def folders(self) -> list[str]:
        return sorted([path.name for path in self.temporary.iterdir()])

    def processes(self) -> list[str]:
        """Those that have this folder's place for temporary files."""
        mine, found = f"TMPDIR={self.temporary}".encode(), []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mine in (process / "environ").read_bytes():
                    found.append(f"{process.name} {(process / 'cmdline').read_bytes()[:80]!r}")
            except OSError:
                continue
        return found

    def repeated(self) -> list[str]:
        """Candidates that were measured twice."""
        known = Counter([(r.name, json.dumps(r.candidate, sort_keys=True)) for r in load(self.log)[0]])
        return [f"{name} {candidate} was measured {n} times" for (name, candidate), n in known.items() if n > 1]

    def finish(self) -> list[str]:
        """A last session, which ends by itself and leaves nothing."""
        process, _ = self.start("--trials", "3")
        try:
            found = [] if process.wait(PATIENCE) == 0 else [f"it ends with status {process.returncode}: {self.words()}"]
        except subprocess.TimeoutExpired:
            process.kill()
            found = [f"it does not end in {PATIENCE:g} s: {self.words()}"]
        return found + self.left(signal.SIGTERM)


def unwritable(folder: Path) -> list[str]:
    """A log on a disk that is full, and one that cannot be read or is a folder: a message, and no candidate is lost that fits."""
    found = []
    line = Record("k", "dense", "llvm", {"tile": [6, 2]}, (1.0,)).to_json()
    small = folder / "small.records"
    script = FULL.format(path=str(small), line=line)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    if "records cannot be added to the log" not in done.stderr:
        found.append(f"a disk that is full: {done.stderr[-300:]}")
    records, refused = load(small)
    if refused or not records or small.stat().st_size > 1000:
        found.append(f"a disk that is full leaves {len(records)} records and {len(refused)} lines that are none")
    for place in ("/dev/full", folder):
        try:
            log.append(place, [line])
            found.append(f"{place}: no error")
        except Exception as error:
            if not str(error).startswith(f"records cannot be added to the log {place}: "):
                found.append(f"{place}: {error}")
    return found


@own_cache()
def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.killed_tuning", description=(__doc__ or "").partition("`: ")[2]
    )
    parser.add_argument("--count", type=int, default=50, help="how often sessions are killed")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args(arguments)
    progress, rng = Progress(options.count, "kills"), random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="killed-tuning-") as name:
        finds, lines = unwritable(Path(name)), 0
        print(*finds, sep="\n", end="\n" if finds else "")
        for i in range(options.count):
            if i % KILLS_OF_A_LOG == 0:
                tuned, both = (Tuned(Path(name) / f"{kind}-{i}", rng) for kind in ("alone", "pairs"))
            number = signal.SIGKILL if i % 4 != 3 else rng.choice([signal.SIGTERM, signal.SIGINT])
            wrong = both.kill(2, number) if i % 5 == 4 else tuned.kill(1, number)
            for what in wrong:
                finds.append(f"kill {i} (signal {int(number)}): {what}")
                progress.clear()
                print(finds[-1], flush=True)
            progress.done, progress.failures = i + 1, len(finds)
            progress.show()
            if i % KILLS_OF_A_LOG == KILLS_OF_A_LOG - 1 or i == options.count - 1:
                last = [f"the last session: {what}" for each in (tuned, both) if each.started for what in each.finish()]
                last += tuned.repeated()
                print(*last, sep="\n", end="\n" if last else "")
                finds += last
                lines += tuned.lines() + both.lines()
    progress.clear()
    print(f"{options.count} kills, {lines} records of version {VERSION}: {len(finds)} finds")
    return int(bool(finds))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--session"]:
        del sys.argv[1]
        session()
    else:
        sys.exit(main())
