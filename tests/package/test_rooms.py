"""Every module that an import of the whole package would bind is an attribute of its package in a process that imported only the top."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.test_layers import LAYERS, ROOT, imports_of, layer_of, name_of


def at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported, and those that tell type checkers what comes late."""
    for node in body:
        yield node
        if isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from at_import([*node.body, *getattr(node, "orelse", ())])


def bound() -> dict[str, list[str]]:
    """By package, its modules among all that packages import, directly or through each other; the command line's are not for programs."""
    imports = {
        name_of(path): {m for _, m in imports_of(at_import(ast.parse(path.read_text()).body))}
        for path in ROOT.rglob("*.py")
    }
    reached: set[str] = set()
    waiting = [name_of(path) for path in ROOT.rglob("*/__init__.py") if "cli" not in path.relative_to(ROOT).parts]
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting += imports.get(module, ())
    found: dict[str, list[str]] = {}
    for module in sorted(reached & imports.keys()):
        package, _, name = module.rpartition(".")
        if package and not name.startswith("_"):
            found.setdefault(package, []).append(name)
    return found


@pytest.fixture(scope="module")
def answer() -> Callable[[str], str]:
    """What a program prints in a process of its own. What one compiled of Python the next ones read."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

    def run(program: str) -> str:
        command = [sys.executable, "-c", program]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    return run


REACH = """
import os
import tilewright as tvm

def package_of(name):
    at = tvm
    for part in name.split("."):
        at = getattr(at, part)
    return at

def look(package, names):
    try:
        missing = set(names) - set(dir(package_of(package)))
    except Exception as error:
        missing = repr(error)
    if missing:
        print(package, missing, flush=True)

for layer in {layers!r}:
    for package, names in layer.items():
        if {apart!r}:
            child = os.fork()
            if child == 0:
                look(package, names)
                os._exit(0)
            os.waitpid(child, 0)
        else:
            look(package, names)
    for package in layer:
        package_of(package)
"""


@pytest.mark.parametrize("apart", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["in turn", "first"])
def test_modules_are_there_without_being_imported(answer: Callable[[str], str], apart: bool) -> None:
    """In one process, from the lowest layer up; and each package as the first of its layer that a process asks for (those below, which
    import none of it, may be loaded)."""
    found = bound()
    assert {"relay", "relay.frontend.common", "te", "tir.schedule", "topi.nn"} <= found.keys()
    assert "expr_functor" in found["relay"]
    layers: dict[str | None, dict[str, list[str]]] = {}
    for package in sorted(found, key=lambda p: LAYERS.index(layer_of(p) or LAYERS[-1])):
        layers.setdefault(layer_of(package), {})[package] = found[package]
    assert answer(REACH.format(layers=list(layers.values()), apart=apart)) == ""


NAMES = """
import sys
import types
import tilewright as tvm
seen, waiting = set(), [tvm]
while waiting:
    module = waiting.pop()
    if module in seen:
        continue
    seen.add(module)
    if module.__name__ in sys.modules:
        exec(f"from {module.__name__} import *", {})
    for name in dir(module):
        try:
            value = getattr(module, name)
        except Exception as error:
            print(module.__name__, name, repr(error))
            continue
        if isinstance(value, types.ModuleType) and value.__name__.startswith("tilewright"):
            waiting.append(value)
print(len(seen) > 700)
"""


def test_every_name_that_a_room_lists_is_there(answer: Callable[[str], str]) -> None:
    assert answer(NAMES) == "True\n"


THREADS = """
import os
import random
import sys
import threading
import tilewright as tvm
NAMES = "arith contrib driver ir node relay runtime script target te testing tir topi".split()
INNER = "relay.build relay.frontend relay.transform relay.vm te.compute tir.Schedule tir.transform tir.analysis topi.nn".split()

def ask(names):
    for name in names:
        try:
            at = tvm
            for part in name.split("."):
                at = getattr(at, part)
            dir(at)
        except BaseException as error:
            print(name, repr(error), flush=True)

for seed in range(4):
    child = os.fork()
    if child == 0:
        sys.setswitchinterval(1e-5)
        draw = random.Random(seed)
        threads = [threading.Thread(target=ask, args=(draw.sample(NAMES + INNER, 4),)) for _ in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_threads_may_ask_for_rooms_at_once(answer: Callable[[str], str]) -> None:
    assert answer(THREADS) == ""


FIRST = """
import importlib, os, sys
import numpy
import tilewright

for module in {modules!r}:
    child = os.fork()
    if child == 0:
        try:
            importlib.import_module("tilewright." + module)
        except Exception as error:
            print(module, repr(error), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def modules_that_fail_first(answer: Callable[[str], str], modules: list[str]) -> str:
    """What those modules say that no process may import as its first of the package."""
    return answer(FIRST.format(modules=modules))


def test_a_module_may_be_imported_first(answer: Callable[[str], str]) -> None:
    # The schedules of TE and hybrid scripts needed each other, by way of the package of the latter.
    assert modules_that_fail_first(answer, ["te.schedule", "te.schedule_build", "te.hybrid.module"]) == ""
    assert "no module" in modules_that_fail_first(answer, ["te.none"]).lower()


@pytest.mark.slow
def test_every_module_may_be_imported_first(answer: Callable[[str], str]) -> None:
    modules = sorted({name_of(path) for path in ROOT.rglob("*.py")} - {"__init__", "__main__", "cli.__main__"})
    assert len(modules) > 1000
    assert modules_that_fail_first(answer, modules) == ""
