"""A failure with as few stages and schedule steps, on as small sizes, as trying them one at a time leaves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.fuzz.check import Mismatch, draw, scheduled
from tests.generators.case import Recipe

SECONDS = 120.0
"""How long one failure is worked on."""


def smaller(recipe: Recipe) -> Iterator[Recipe]:
    """Recipes of less, the boldest first."""
    for name in ("steps", "stages"):
        parts: tuple[int, ...] = getattr(recipe, name)
        size = (len(parts) + 1) // 2
        while size:
            for begin in range(len(parts) - size, -1, -1):
                yield recipe._replace(**{name: parts[:begin] + parts[begin + size :]})
            size = size // 2
    for largest in (2, 3, 4, 6, 8):
        if largest < recipe.largest:
            yield recipe._replace(largest=largest)


def smallest(run: Callable[[Recipe], Any], recipe: Recipe, failure: Mismatch) -> tuple[Recipe, Mismatch]:
    """The smallest recipe found that still fails."""
    until = time.monotonic() + SECONDS
    shrinking = True
    while shrinking:
        shrinking = False
        for less in smaller(recipe):
            if time.monotonic() > until:
                return recipe, failure
            try:
                run(less)
            except Mismatch as found:
                recipe, failure, shrinking = less, found, True
                break
    return recipe, failure


def report(recipe: Recipe, failure: Mismatch) -> str:
    """What a person needs of a failure: where, the command that repeats it, the schedule and the program before it."""
    lines = [
        f"seed {recipe.seed}: {failure.step} went wrong: {failure.reason}",
        f"repeat it: python -m tests.fuzz {recipe.options()}",
    ]
    try:
        case, done = draw(recipe), list[str]()
        lines += ["--- the program", str(case.func)]
        if recipe.kind != "flat":
            scheduled(case, recipe, after=lambda text, s: done.append(text))
        lines.insert(2, f"schedule: {'; '.join(done) or 'none'}")
    except Exception as error:
        lines.append(f"(made so far: {type(error).__name__})")
    if failure.program:
        lines += [f"--- before {failure.step}", str(failure.program)]
    return "\n".join(lines)
