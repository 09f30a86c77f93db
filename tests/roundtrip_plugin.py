"""`pytest --roundtrip`: a test fails when parse(print(f)) differs from any PrimFunc f, or module of relay functions or of such,
made while it runs."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

import pytest

from tests.generators.relay_roundtrip import assert_relay_roundtrip, no_program
from tests.generators.roundtrip import assert_roundtrip
from tilewright.ir import IRModule
from tilewright.node import structural_hash
from tilewright.relay import Function
from tilewright.tir import PrimFunc


class RoundTrip:
    """Programs as they are constructed, the same one only once in a session."""

    def __init__(self) -> None:
        # What is in a cache would not be made.
        os.environ["TILEWRIGHT_CACHE_DIR"] = tempfile.mkdtemp(prefix="roundtrip")
        atexit.register(shutil.rmtree, os.environ["TILEWRIGHT_CACHE_DIR"], ignore_errors=True)
        self.made: list[Any] = []
        self.seen: set[tuple[type, int]] = set()
        self.printed = 0
        self.left_out: Counter[str] = Counter()
        self.paused = False
        self._watch(PrimFunc, "_build")
        self._watch(IRModule, "_derive")

    def _watch(self, cls: type, method: str) -> None:
        build: Callable[..., None] = getattr(cls, method)

        def wrapped(node: Any, *values: Any, **named: Any) -> None:
            build(node, *values, **named)
            if not self.paused:
                self.made.append(node)

        # The guard of nodes lets only functions of these names set fields.
        wrapped.__code__ = wrapped.__code__.replace(co_name=method)
        setattr(cls, method, wrapped)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self.paused = item.get_closest_marker("releases") is not None
        result = yield
        made, self.made = self.made, []
        self.paused = True
        try:
            problems = [text for node in made if (text := self._problem(node)) is not None]
        finally:
            self.paused = False
        if problems:
            pytest.fail(
                f"{len(problems)} programs do not come back from their text:\n" + "\n\n".join(problems[:3]),
                pytrace=False,
            )
        return result

    def _problem(self, node: Any) -> str | None:
        if isinstance(node, IRModule):
            functions = node.functions.values()
            if functions and all([isinstance(f, Function) for f in functions]):
                return self._relay_problem(node)
            if not functions or not all([isinstance(f, PrimFunc) for f in functions]):
                return None
        key = (type(node), structural_hash(node))
        if key in self.seen:
            return None
        self.seen.add(key)
        self.printed += 1
        try:
            assert_roundtrip(node)
        except Exception as error:
            # What the text is can be seen in the error, but for errors of the printer itself.
            return "".join(traceback.format_exception(error, limit=-4))
        return None

    def _relay_problem(self, mod: IRModule) -> str | None:
        try:
            key = (IRModule, structural_hash(mod))
        except TypeError:
            self.left_out["attributes that are no data, such as compiled modules"] += 1
            return None
        try:
            if key in self.seen:
                return None
            self.seen.add(key)
            why = no_program(mod)
            if why is None:
                self.printed += 1
                assert_relay_roundtrip(mod)
            else:
                self.left_out[why] += 1
        except Exception as error:
            return "".join(traceback.format_exception(error, limit=-4))
        return None

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.write_line(f"{self.printed} different programs were printed and parsed")
        for why, count in self.left_out.most_common():
            terminalreporter.write_line(f"{count} modules were not, which are not programs: {why}")
