"""What the parts of meta_schedule share: classes of users, seeds, names of modules."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

from tilewright.ir import IRModule
from tilewright.node import structural_hash
from tilewright.rpc import RPCSession
from tilewright.runtime import get_global_func
from tilewright.support.errors import RPCError, TVMError

Class = TypeVar("Class", bound=type)


def derived_object(cls: Class) -> Class:
    """Marks a class of a user that derives from PyScheduleRule, PyMutator, PyCostModel or another Py class, and returns it.

    Raises TypeError for a class that derives from none of them.
    """
    if not any([base.__name__.startswith("Py") for base in cls.__mro__[1:]]):
        raise TypeError(
            f"derived_object: {cls.__name__} must derive from a class that is made for it, such as PyScheduleRule"
        )
    return cls


def raised(error: BaseException) -> str:
    """What a part of a user raised, in a line: the text of errors that are raised on purpose, else with the kind."""
    text = str(error).strip().split("\n")[0]
    return (
        text
        if isinstance(error, TVMError) and text
        else f"{type(error).__name__}: {text}"
        if text
        else type(error).__name__
    )


def cpu_count(logical: bool = True) -> int:
    """The number of CPUs that this process may use. logical: also those that share a core."""
    allowed = sorted(os.sched_getaffinity(0))
    if logical:
        return len(allowed)
    cores = set()
    for cpu in allowed:
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", encoding="ascii") as file:
                cores.add(file.read().strip())
        except OSError:
            cores.add(str(cpu))
    return len(cores)


def fork_seed(seed: int | None, n: int) -> list[int]:
    """n seeds that follow from one. seed: None draws it."""
    random = Random(seed)
    return [random.getrandbits(30) + 1 for _ in range(n)]


def shash2hex(mod: IRModule) -> str:
    """The structural hash of a module as hexadecimal text."""
    return f"{structural_hash(mod) & 0xFFFFFFFFFFFFFFFF:016x}"


def remove_build_dir(artifact_path: str) -> None:
    """Deletes the folder in which a library was built."""
    shutil.rmtree(os.path.dirname(artifact_path), ignore_errors=True)


def get_global_func_with_default_on_worker(name: str | Callable[..., Any] | None, default: Any) -> Any:
    """A function by its registered name; a function is returned as it is, and the default for None.

    Raises TVMError where there is no function of that name.
    """
    if name is None:
        return default
    if callable(name):
        return name
    found = get_global_func(name, allow_missing=True)
    if found is None:
        raise TVMError(f"there is no function {name!r} in this process: register it by tvm.register_func")
    return found


def print_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of texts with a head as a table of plain text."""
    widths = [max([len(row[i]) for row in rows]) for i in range(len(rows[0]))]
    lines = ["  ".join([cell.ljust(width) for cell, width in zip(row, widths, strict=True)]).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * (sum(widths) + 2 * len(widths) - 2), *lines[1:]])


def print_interactive_table(data: str) -> None:
    """Prints a table."""
    print(data)


def get_global_func_on_rpc_session(session: RPCSession, name: str, extra_error_msg: str | None = None) -> Any:
    """A function of a board by its registered name. Raises TVMError where the board has none."""
    try:
        return session.get_function(name)
    except (AttributeError, RPCError) as error:
        more = f" {extra_error_msg}" if extra_error_msg else ""
        raise TVMError(f"the board has no function {name!r}.{more}") from error
