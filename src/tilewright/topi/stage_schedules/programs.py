"""Programs of loops (`topi.loops`) on GPUs: parallel loops have a thread for each iteration; all else is the work of one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.topi.device_loops import bound
from tilewright.topi.loops import placed


def on_threads(form: Callable[..., Any]) -> Callable[..., Any]:
    """A compute whose programs run on a GPU."""

    def compute(*args: Any, **kwargs: Any) -> Any:
        with placed(bound):
            return form(*args, **kwargs)

    compute.__doc__ = form.__doc__
    return compute
