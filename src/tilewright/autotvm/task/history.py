"""Contexts whose configurations come from records."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.autotvm.env import GLOBAL_SCOPE
from tilewright.autotvm.measure.measure import MeasureInput, MeasureResult
from tilewright.autotvm.record import load_from_buffer, load_from_file
from tilewright.autotvm.task.dispatcher import DispatchContext, Workload
from tilewright.autotvm.task.possible import is_possible
from tilewright.autotvm.task.space.config import ConfigSpace
from tilewright.autotvm.task.space.fallback import FallbackConfigEntity

logger = logging.getLogger("autotvm")

Pair = tuple[MeasureInput, MeasureResult]
Records = str | os.PathLike[str] | io.TextIOBase | Iterable[Any]
"""A log by its path or as an open file, pairs of inputs and results, or several of these."""


def pairs_of(records: Records) -> Iterable[Pair]:
    """The pairs of inputs and results."""
    if isinstance(records, (str, Path, os.PathLike)):
        yield from load_from_file(records)
    elif isinstance(records, io.TextIOBase):
        yield from load_from_buffer(records)
    else:
        for entry in records:
            if isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], MeasureInput):
                yield entry
            else:
                yield from pairs_of(entry)


class ApplyHistoryBest(DispatchContext):
    """Gives each workload the fastest configuration among records: of targets of the same model, else of targets that have a key in common.

    records: see `Records`; None: none yet. best_by_model, best_by_targetkey: the fastest records. One whose time no machine can reach is
    not used, which a warning tells.
    """

    def __init__(self, records: Records | None) -> None:
        super().__init__()
        self.best_by_model: dict[tuple[str, Workload], Pair] = {}
        self.best_by_targetkey: dict[tuple[str, Workload], Pair] = {}
        self._given: dict[tuple[str, Workload | None], ConfigSpace] = {}
        self._all: dict[Workload, list[Pair]] = {}
        self._checked: set[int] = set()
        if records is not None:
            self.load(records)

    def load(self, records: Records) -> None:
        """Takes further records. Those of failed measurements are left out."""
        count = 0
        for pair in pairs_of(records):
            count += 1
            given, result = pair
            if result.error_no:
                continue
            self._all.setdefault(given.task.workload, []).append(pair)
            self._take(pair)
        logger.debug("%d records were read", count)

    def _take(self, pair: Pair) -> None:
        target, workload = pair[0].target, pair[0].task.workload
        for key in target.keys:
            _keep(self.best_by_targetkey, (key, workload), pair)
        if target.model != "unknown":
            _keep(self.best_by_model, (target.model, workload), pair)

    def _fastest(self, target: Any, workload: Workload) -> Pair | None:
        """The fastest record for a target, of those that can be true."""
        while True:
            found = self.best_by_model.get((target.model, workload))
            for key in target.keys:
                found = found or self.best_by_targetkey.get((key, workload))
            if found is None or id(found) in self._checked:
                return found
            if is_possible(*found):
                self._checked.add(id(found))
                return found
            self._all[workload] = [pair for pair in self._all.get(workload, ()) if pair is not found]
            for best in (self.best_by_model, self.best_by_targetkey):
                for known in [k for k, pair in best.items() if k[1] == workload]:
                    del best[known]
            for pair in self._all[workload]:
                self._take(pair)

    def _query_inside(self, target: Any, workload: Workload | None) -> ConfigSpace | None:
        if target is None:
            raise RuntimeError(
                "the fastest configuration is that of a target: wrap the call in `with tvm.target.Target(...):`"
            )
        for key in (target.model, *target.keys):
            if (key, workload) in self._given:
                return self._given[key, workload]
        if workload is None:
            return None
        found = self._fastest(target, workload)
        return found[0].config if found else None

    def update(self, target: Any, workload: Workload | None, cfg: ConfigSpace) -> None:
        """Gives a workload a configuration, whatever the records say."""
        for key in (target.model, *target.keys):
            if key != "unknown":
                self._given[key, workload] = cfg


def _keep(best: dict[tuple[str, Workload], Pair], key: tuple[str, Workload], pair: Pair) -> None:
    if key not in best or np.mean(pair[1].costs) < np.mean(best[key][1].costs):
        best[key] = pair


class ApplyGraphBest(DispatchContext):
    """Gives the workloads of a build, in the order in which they ask, the configurations of records: those that a graph tuner chose.
    Further workloads get what they were given before, or else a FallbackConfigEntity."""

    def __init__(self, records: Records) -> None:
        super().__init__()
        self._records = list(pairs_of(records))
        self._counter = 0
        self._known: dict[tuple[str, Workload | None], ConfigSpace] = {}

    def _query_inside(self, target: Any, workload: Workload | None) -> ConfigSpace:
        if self._counter < len(self._records):
            config: ConfigSpace = self._records[self._counter][0].config
            self._counter += 1
            self.update(target, workload, config)
            return config
        key = (str(target), workload)
        if key not in self._known:
            if not GLOBAL_SCOPE.silent:
                logger.warning(
                    "Config for target=%s, workload=%s is missing in ApplyGraphBest context. A fallback is used.", *key
                )
            self._known[key] = FallbackConfigEntity()
        return self._known[key]

    def known(self, target: Any, workload: Workload | None) -> ConfigSpace | None:
        """The configuration of the next record of the workload, else what the workload was given before."""
        for i in range(self._counter, len(self._records)):
            if self._records[i][0].task.workload == workload:
                config: ConfigSpace = self._records.pop(i)[0].config
                self.update(target, workload, config)
                return config
        return self._known.get((str(target), workload))

    def update(self, target: Any, workload: Workload | None, cfg: ConfigSpace) -> None:
        self._known[str(target), workload] = cfg


__all__ = ["ApplyGraphBest", "ApplyHistoryBest", "Records", "pairs_of"]
