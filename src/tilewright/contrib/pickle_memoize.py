"""Results of functions that are kept in files, such as references of tests that take long to compute."""

from __future__ import annotations

import atexit
import functools
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

GLOBAL_CACHE_DIR = os.path.join(".pkl_memoize_py3")
"""The folder of the files, below the working directory."""
_caches: dict[str, Cache] = {}


class Cache:
    """Results by their arguments, in a file. save_at_exit: whether they are written when the process ends."""

    def __init__(self, key: str, save_at_exit: bool) -> None:
        self._values: dict[Any, Any] | None = None
        self.path = Path(GLOBAL_CACHE_DIR) / key
        self.dirty = False
        self.save_at_exit = save_at_exit

    @property
    def cache(self) -> dict[Any, Any]:
        """The results; those of the file, if there is one, when they are first asked for."""
        if self._values is None:
            self._values = {}
            if self.path.exists():
                with self.path.open("rb") as file:
                    self._values = pickle.load(file)
        return self._values

    def save(self) -> None:
        """Writes the results, if there are new ones."""
        if not self.dirty:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        with part.open("wb") as file:
            pickle.dump(self.cache, file, pickle.HIGHEST_PROTOCOL)
        # Another process sees all of a file, or the one before.
        part.replace(self.path)
        self.dirty = False


@atexit.register
def _at_exit() -> None:
    for cache in _caches.values():
        if cache.save_at_exit:
            cache.save()


def memoize(key: str, save_at_exit: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates a function whose results are kept, by its positional arguments, which can be hashed and pickled. key: the name of the file.
    Without `save_at_exit`, results last as long as the process, besides those that the file had."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        file = f"{key}.{function.__name__}.pkl"
        cache = _caches.setdefault(file, Cache(file, save_at_exit))
        # Values that the function closes over decide its results as arguments do.
        closed = tuple([cell.cell_contents for cell in function.__closure__ or ()])
        for value in closed:
            if not isinstance(value, (str, int, float, bool, tuple, type)):
                raise TypeError(
                    f"memoize: {function.__name__} reads a {type(value).__name__} of the function around it; results are kept by arguments"
                    " and by numbers, texts, tuples and types, so pass it as an argument, or make it a global"
                )

        @functools.wraps(function)
        def called(*args: Any) -> Any:
            held = (closed, args)
            if held not in cache.cache:
                cache.cache[held] = function(*args)
                cache.dirty = True
            return cache.cache[held]

        return called

    return decorate
