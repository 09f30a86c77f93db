"""A first run of a model, which every measurement begins with."""

from __future__ import annotations

from typing import Any, NamedTuple

from tilewright.cli.models import executor_of, load_or_compile
from tilewright.cli.options import Build, Feed, use_threads
from tilewright.cli.tensors import Array, feed_model, run_checked


class FirstRun(NamedTuple):
    """An executor that has run once, its library and inputs, and the seconds of preparing it, by step."""

    executor: Any
    library: Any
    inputs: dict[str, Array]
    seconds: dict[str, float]


def run_once(build: Build, feed: Feed, threads: int | None) -> FirstRun:
    """Compiles or loads a model, sets its inputs and runs it. Raises TVMError if a step fails."""
    use_threads(threads)
    library, seconds = load_or_compile(build)
    executor = executor_of(library)
    inputs = feed_model(executor, feed)
    run_checked(executor)
    return FirstRun(executor, library, inputs, seconds)
