"""Which configuration a template gets: that of the innermost context that has one for the workload."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Self

from tilewright.autotvm.env import GLOBAL_SCOPE
from tilewright.autotvm.task.space.config import ConfigSpace
from tilewright.autotvm.task.space.fallback import FallbackConfigEntity
from tilewright.support import lazy
from tilewright.support.errors import TVMError

logger = logging.getLogger("autotvm")

Workload = tuple[Any, ...]
SEARCHED: set[str] = set()
"""Names of templates that find their configuration themselves where there is no record: nothing is to be warned of."""

# Contexts that read logs, which are above this.
lazy.declare(
    __name__,
    {name: f"tilewright.autotvm.task.history:{name}" for name in ("ApplyGraphBest", "ApplyHistoryBest", "Records")},
)
__getattr__, __dir__ = lazy.late(__name__)


class DispatchContext:
    """Answers which configuration a template gets. Used as `with context:`; contexts around it answer what it cannot.

    current: the innermost one.
    """

    current: DispatchContext

    def __init__(self) -> None:
        self._outer: list[DispatchContext] = []

    def query(self, target: Any, workload: Workload | None) -> ConfigSpace:
        """The configuration for a workload on a target; of this context or of the nearest around it that has one."""
        found = self._query_inside(target, workload)
        if found is None and self._outer:
            found = self._outer[-1].query(target, workload)
        if found is None:
            raise TVMError(
                f"there is no configuration for {workload} on {target}: a context that is asked directly has no others around it"
            )
        return found

    def known(self, target: Any, workload: Workload | None) -> ConfigSpace | None:
        """The configuration that this context has for a workload, without asking others and without making one."""
        return self._query_inside(target, workload)

    def update(self, target: Any, workload: Workload | None, cfg: ConfigSpace) -> None:
        """Sets the configuration for a workload on a target."""
        raise NotImplementedError(f"{type(self).__name__} does not take configurations")

    def _query_inside(self, target: Any, workload: Workload | None) -> ConfigSpace | None:
        raise NotImplementedError(f"{type(self).__name__} does not say which configuration a workload gets")

    def __enter__(self) -> Self:
        self._outer.append(DispatchContext.current)
        DispatchContext.current = self
        return self

    def __exit__(self, *_: object) -> None:
        DispatchContext.current = self._outer.pop()


def recorded(target: Any, workload: Workload) -> ConfigSpace | None:
    """The configuration that the contexts have for a workload, other than a fallback; None if there is none."""
    context = DispatchContext.current
    while True:
        found = context.known(target, workload)
        if found is not None or not context._outer:
            return None if found is not None and found.is_fallback else found
        context = context._outer[-1]


def has_records() -> bool:
    """Whether a context may have configurations for workloads."""
    context = DispatchContext.current
    return not isinstance(context, FallbackContext) or any([not c.is_fallback for c in context.memory.values()])


class ApplyConfig(DispatchContext):
    """Gives one configuration, or a space that is to be filled, to all workloads. workload: the last one that asked."""

    def __init__(self, config: ConfigSpace) -> None:
        super().__init__()
        self._config = config
        self.workload: Workload | None = None

    def _query_inside(self, target: Any, workload: Workload | None) -> ConfigSpace:
        self.workload = workload
        return self._config

    def update(self, target: Any, workload: Workload | None, cfg: ConfigSpace) -> None:
        self.workload, self._config = workload, cfg


class ApplyFixedConfig(DispatchContext):
    """Gives each workload of the tasks the first configuration of its space. Its cost is low for the templates that are named, and high for
    the others, so that a build that may choose takes these.

    tasks: of `task.create` or `task.extract_from_program`. schedule_names: a name of a template, or several.
    """

    def __init__(self, tasks: Sequence[Any], schedule_names: str | Sequence[str]) -> None:
        super().__init__()
        self.tasks = list(tasks)
        self.workload: Workload | None = None
        self._names = [schedule_names] if isinstance(schedule_names, str) else list(schedule_names)

    def _query_inside(self, target: Any, workload: Workload | None) -> ConfigSpace:
        self.workload = workload
        name = workload[0] if workload else None
        task = next((t for t in self.tasks if t.name == name), None)
        if task is None:
            raise RuntimeError(
                f"no task has the template of the workload {workload}; there are tasks of {', '.join([t.name for t in self.tasks])}"
            )
        config: ConfigSpace = task.config_space.get(0)
        config.cost = 1e-6 if name in self._names else 1e5
        return config

    def known(self, target: Any, workload: Workload | None) -> ConfigSpace | None:
        """The configuration for a workload of the tasks' templates."""
        named = workload is not None and any([t.name == workload[0] for t in self.tasks])
        return self._query_inside(target, workload) if named else None

    def update(self, target: Any, workload: Workload | None, cfg: ConfigSpace) -> None:
        self.workload = workload


class FallbackContext(DispatchContext):
    """The outermost context: it gives a FallbackConfigEntity, the same for the same workload, and warns of it once."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: dict[tuple[str, Workload | None], ConfigSpace] = {}
        self._told: set[tuple[str, Workload | None]] = set()

    def _query_inside(self, target: Any, workload: Workload | None) -> ConfigSpace:
        key = (str(target), workload)
        if key not in self.memory:
            searched = workload is not None and workload[0] in SEARCHED
            if not GLOBAL_SCOPE.silent and not searched and key not in self._told:
                self._told.add(key)
                logger.warning(
                    "Cannot find config for target=%s, workload=%s. A fallback configuration is used, which may bring great"
                    " performance regression.",
                    *key,
                )
            self.memory[key] = FallbackConfigEntity()
        return self.memory[key]

    def known(self, target: Any, workload: Workload | None) -> ConfigSpace | None:
        return self.memory.get((str(target), workload))

    def clear_cache(self, target: Any, workload: Workload | None) -> None:
        """Forgets the configuration of a workload."""
        self.memory.pop((str(target), workload), None)

    def update(self, target: Any, workload: Workload | None, cfg: ConfigSpace) -> None:
        self.memory[str(target), workload] = cfg


DispatchContext.current = FallbackContext()


def clear_fallback_cache(target: Any, workload: Workload | None) -> None:
    """Makes the outermost context forget the configuration of a workload, so that the template sets a fresh one."""
    context = DispatchContext.current
    while not isinstance(context, FallbackContext):
        context = context._outer[-1]
    context.clear_cache(target, workload)
