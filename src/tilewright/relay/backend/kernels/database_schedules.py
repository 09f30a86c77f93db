"""Kernels as the database of meta_schedule that is in use schedules them."""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING

from tilewright.codegen.backend import IS_SCHEDULED
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.target import Target
from tilewright.tir import PrimFunc

if TYPE_CHECKING:
    from tilewright.meta_schedule import Database

USE, DISPATCH = "relay.backend.use_meta_schedule", "relay.backend.use_meta_schedule_dispatch"
"""Options, each of which lets builds use the database."""

logger = logging.getLogger("tilewright.meta_schedule")


def asks_database() -> bool:
    """Whether an option lets builds use a database."""
    config = PassContext.current().config
    return bool(config.get(USE, False) or config.get(DISPATCH, 0))


def database_in_use() -> Database | None:
    """The database that builds use; None without one, or where no option lets them use it."""
    if not asks_database():
        return None
    from tilewright.meta_schedule import Database

    return Database.current()


def need_database() -> None:
    """Warns where an option asks for a database, and none is in use."""
    if asks_database() and database_in_use() is None:
        warnings.warn(
            f"the option {USE!r} asks for records of meta_schedule, but no database is in use: build inside `with database:`",
            UserWarning,
            stacklevel=4,
        )


def workload_of(func: PrimFunc) -> IRModule:
    """The unscheduled kernel as it is in databases: without its name."""
    return IRModule.from_expr(func.with_attr("global_symbol", "main"))


def scheduled_by(database: Database, func: PrimFunc, name: str, target: Target) -> PrimFunc | None:
    """The kernel, scheduled by its fastest record; None without any, which is logged."""
    found = database.query_ir_module(workload_of(func), target, name)
    if found is None:
        logger.warning("the database has no record of %s: it is scheduled as without one", name)
        return None
    (made,) = found.functions.values()
    assert isinstance(made, PrimFunc)
    return made.with_attr({"global_symbol": name, IS_SCHEDULED: True})
