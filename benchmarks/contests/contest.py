"""Contestants in worker processes of their own, which run in turn: the same machine for all, and no pool disturbs another.

Every worker has the same cores (affinity), the same number of threads and the same inputs, is compiled and warm, and sleeps in a
read while others run. A round gives each a burst; the order turns from round to round.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import models
from benchmarks.options import cores
from benchmarks.peers import PEERS, STORE, TOLERANCE, relative_error

SETTLE = 0.03
"""Seconds before each burst, in which the pool of the one before stops spinning on the cores that this one needs."""
BURST_S = 0.12
"""Seconds that a burst should last: long enough for some runs of small models, short so that all meet the same machine."""
MOST_RUNS = 25
ROOT = Path(__file__).resolve().parents[2]


def reason(told: str) -> str:
    """Of what a process that failed has told, the line that says why: its last error's, for advice on where to read more may follow it."""
    lines = [line for line in told.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception): \S", line)]
    return (errors or lines or [""])[-1].strip()[:300]


class Contestant:
    """A worker process, ready and warm."""

    def __init__(self, peer: str, model: str, threads: int, store: Path | None = None) -> None:
        self.peer = peer
        environment = {**os.environ, "TVM_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
        if store is not None:
            environment |= {
                "TILEWRIGHT_CACHE_DIR": str(store / "tilewright"),
                "TILEWRIGHT_BENCH_STORE": str(store / "peers"),
                "TORCHINDUCTOR_CACHE_DIR": str(store / "inductor"),
            }
        elif PEERS[peer].python:
            environment["TILEWRIGHT_CACHE_DIR"] = str(STORE / peer)
        # A file, not a pipe: nobody reads what libraries print while their worker runs.
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [PEERS[peer].executable(), "-m", "benchmarks", "worker", peer, model, str(threads)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores(threads)),
        )
        self.facts: dict[str, Any] = {}
        self.times: list[list[float]] = []
        self.runs = 1

    def start(self) -> None:
        """Wait until it is ready; RuntimeError if it cannot run."""
        self.facts = self._answer()
        if "unavailable" in self.facts:
            raise RuntimeError(self.facts["unavailable"])
        (once,) = self.ask({"burst": 1})
        self.runs = max(1, min(MOST_RUNS, round(BURST_S * 1e3 / once)))

    def ask(self, command: dict[str, Any]) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.process.wait()
        self.errors.seek(0)
        raise RuntimeError(reason(self.errors.read()) or f"ended with status {self.process.returncode}")

    def burst(self) -> None:
        time.sleep(SETTLE)
        self.times.append(self.ask({"burst": self.runs}))

    def outputs(self, folder: Path) -> list[np.ndarray]:
        path = folder / f"{self.peer}.npz"
        self.ask({"outputs": str(path)})
        with np.load(path) as held:
            found = [held[name] for name in held.files]
        path.unlink()
        return found

    def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.errors.close()


def contest(
    model: str, threads: int, peers: list[str], seconds: float, rounds: int, cold: bool = False
) -> dict[str, Any]:
    """One model: {"peers": {name: facts and "rounds", milliseconds of each run by round, or "error"}}. All peers have equally many rounds:
    `rounds`, or fewer once `seconds` for each contestant have passed, but never fewer than three."""
    models.make(model)
    result: dict[str, Any] = {"model": model, "threads": threads, "peers": {}}
    running: list[Contestant] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for peer in peers:
                contestant = Contestant(peer, model, threads, Path(folder) / peer if cold else None)
                running.append(contestant)
                try:
                    contestant.start()
                except RuntimeError as error:
                    result["peers"][peer] = {"error": str(error)}
                    contestant.close()
                    running.remove(contestant)
            check_outputs(running, Path(folder), result)
            stop = time.monotonic() + seconds * len(running)
            for done in range(rounds):
                if done >= 3 and time.monotonic() > stop:
                    break
                turn = done % max(len(running), 1)
                for contestant in running[turn:] + running[:turn]:
                    contestant.burst()
            for contestant in running:
                facts = {
                    **contestant.facts,
                    **contestant.ask({"memory": True}),
                    "cold": cold,
                    "rounds": contestant.times,
                }
                result["peers"].setdefault(contestant.peer, {}).update(facts)
        finally:
            for contestant in running:
                contestant.close()
    return result


def check_outputs(running: list[Contestant], folder: Path, result: dict[str, Any]) -> None:
    """Every contestant's difference from the first peer that is not this compiler and computes in float32."""
    given = {c.peer: c.outputs(folder) for c in running}
    exact = [p for p in given if PEERS[p].precision == "float32"]
    reference = next((p for p in exact if not PEERS[p].ours), exact[0] if exact else None)
    if reference is None:
        return
    for peer, found in given.items():
        error = relative_error(found, given[reference])
        facts: dict[str, Any] = {"difference": error}
        if not error <= TOLERANCE[PEERS[peer].precision]:
            facts["wrong"] = f"outputs differ from {reference}'s by {error:.2g} of the largest"
        result["peers"].setdefault(peer, {}).update(facts)
    result["reference"] = reference
