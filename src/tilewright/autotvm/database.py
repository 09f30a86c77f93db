"""Measurements kept by their inputs, so that none is made twice."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

from tilewright.autotvm.measure.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tilewright.autotvm.record import decode, encode, measure_str_key
from tilewright.support.errors import TVMError

logger = logging.getLogger("autotvm")


class Database(ABC):
    """Measurements by their inputs."""

    @abstractmethod
    def load(self, inp: MeasureInput, get_all: bool = False) -> Any:
        """The last result of an input; None if there is none. get_all: all of its results, as a list."""

    @abstractmethod
    def save(self, inp: MeasureInput, res: MeasureResult, extend: bool = False) -> None:
        """Keeps a result. extend: beside those that the input has, not instead of them."""


def filter_inputs(db: Database, measure_inputs: Sequence[MeasureInput], retry: bool = True) -> list[MeasureInput]:
    """The inputs that have no result. retry: those whose last measurement failed or was cut off are among them too."""
    again = (MeasureErrorNo.BUILD_TIMEOUT, MeasureErrorNo.RUN_TIMEOUT, MeasureErrorNo.UNKNOWN_ERROR)
    left = []
    for given in measure_inputs:
        result = db.load(given)
        if result is None or retry and result.error_no in again:
            left.append(given)
    return left


class TextDatabase(Database):
    """Keeps the results of an input as lines of a text. A subclass says where: `get` and `set`."""

    @abstractmethod
    def get(self, key: str) -> str | None:
        """The text of a key; None if there is none."""

    @abstractmethod
    def set(self, key: str, value: str) -> None:
        """Sets the text of a key."""

    @abstractmethod
    def items(self) -> Iterable[tuple[str, str]]:
        """All keys with their texts."""

    def load(self, inp: MeasureInput, get_all: bool = False) -> Any:
        text = self.get(measure_str_key(inp))
        if text is None:
            return None
        results = [pair[1] for line in text.splitlines() if (pair := decode(line)) is not None]
        return results if get_all else max(results, key=lambda r: r.timestamp)

    def save(self, inp: MeasureInput, res: MeasureResult, extend: bool = False) -> None:
        key, line = measure_str_key(inp), encode(inp, res)
        known = self.get(key) if extend else None
        self.set(key, f"{known}\n{line}" if known else line)

    def filter(self, func: Callable[[MeasureInput, MeasureResult], bool]) -> list[tuple[MeasureInput, MeasureResult]]:
        """The measurements that a function accepts."""
        pairs = [pair for _, text in self.items() for line in text.splitlines() if (pair := decode(line)) is not None]
        return [pair for pair in pairs if func(*pair)]


class RedisDatabase(TextDatabase):
    """Keeps measurements in a Redis server of this machine, at its usual port. It needs the package redis. db_index: the number of the
    database there. Raises TVMError without the package."""

    REDIS_PROD, REDIS_LOCA, REDIS_TEST, REDIS_NIGHT_TEMP = 15, 14, 13, 12

    def __init__(self, db_index: int = REDIS_PROD) -> None:
        try:
            redis: Any = import_module("redis")
        except ImportError as error:
            raise TVMError("a RedisDatabase needs the package redis: pip install redis") from error
        self.db = redis.StrictRedis(host="localhost", port=6379, db=db_index, decode_responses=True)
        if db_index == self.REDIS_TEST:
            self.db.flushdb()

    def get(self, key: str) -> str | None:
        found = self.db.get(key)
        return None if found is None else str(found)

    def set(self, key: str, value: str) -> None:
        self.db.set(key, value)

    def items(self) -> Iterable[tuple[str, str]]:
        return [(str(key), str(self.db.get(key))) for key in self.db.keys("*")]

    def flush(self) -> None:
        """Forgets all."""
        self.db.flushdb()


class DummyDatabase(TextDatabase):
    """A database in memory."""

    def __init__(self) -> None:
        self.db: dict[str, str] = {}

    def get(self, key: str) -> str | None:
        return self.db.get(key)

    def set(self, key: str, value: str) -> None:
        self.db[key] = value

    def items(self) -> Iterable[tuple[str, str]]:
        return self.db.items()

    def flush(self) -> None:
        """Forgets all."""
        self.db.clear()
