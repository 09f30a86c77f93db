"""The tuned model beside the untuned one on a board of a tracker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tilewright.cli.measuring import Contestant
from tilewright.cli.options import Feed
from tilewright.cli.tensors import Array, feed_model, fill_inputs
from tilewright.support.errors import RPCError
from tilewright.support.files import temporary_directory

SESSION_SECONDS = 600
"""Of a session, and for which a board that is busy is waited for."""


class Board(NamedTuple):
    """How a board is asked for: the tracker's address, the key of the boards, the file with the secret."""

    tracker: tuple[str, int]
    key: str
    key_file: Path | None = None

    @contextmanager
    def contestants(self, libraries: Mapping[str, Any], precision: str, feed: Feed) -> Iterator[list[Contestant]]:
        """Contestants for libraries by name, all on one board, with the same inputs. Raises RPCError if there is no board, or it is
        lost."""
        from tilewright.contrib import graph_executor
        from tilewright.tuning.running.board import Place

        secret = None if self.key_file is None else str(self.key_file)
        place = Place(self.key, self.tracker, None, SESSION_SECONDS, 1, "cpu", secret, None)
        if not place.boards():
            raise RPCError(f"there is no board {place}")
        # The session ends when nothing refers to it any more.
        remote = place.session()
        device, made = remote.cpu(), list[Contestant]()
        inputs: dict[str, Array] | None = None
        with TemporaryDirectory(prefix="tilewright-tune-", dir=temporary_directory()) as folder:
            for name, library in libraries.items():
                path = Path(folder) / f"{name}.so"
                library.export_library(str(path))
                remote.upload(str(path))
                executor = graph_executor.GraphModule(remote.load_module(path.name)["default"](device))
                inputs = feed_model(executor, feed) if inputs is None else inputs
                fill_inputs(executor, inputs)
                made.append(_Remote(name, precision, executor, device))
            yield made


class _Remote(Contestant):
    """A model on a board. The board measures, so the network does not count."""

    def __init__(self, name: str, precision: str, executor: Any, device: Any) -> None:
        super().__init__(name, precision, [executor.run])
        self._executor, self._device = executor, device

    def measure(self, seconds: float, count: int | None, warmup: int) -> None:
        runs = warmup + (count or 1)
        timer = self._executor.module.time_evaluator("run", self._device, number=1, repeat=runs)
        times = [1e3 * t for t in timer().results[warmup:]]
        self.milliseconds += times
        self.seconds += sum(times) / 1e3
