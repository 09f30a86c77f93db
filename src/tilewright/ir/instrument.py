"""Instruments: what watches passes run (times, prints, checks) without the passes knowing."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from tilewright.ir.expr import BaseFunc
from tilewright.ir.html_report import HtmlReport as HtmlReport
from tilewright.ir.inspection import faults_of
from tilewright.ir.module import IRModule
from tilewright.ir.text_diff import diff
from tilewright.ir.transform import PassInfo
from tilewright.support.errors import TVMError


class PassInstrument:
    """Base for instruments; override what you need."""

    def enter_pass_ctx(self) -> None:
        """Called when the context that holds this instrument is entered."""

    def exit_pass_ctx(self) -> None:
        """Called when that context is left."""

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        """Whether the pass is to run."""
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Called before each pass."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Called after each pass, with the new module."""

    def pass_failed(self, mod: IRModule, info: PassInfo) -> None:
        """Called instead of run_after_pass when the pass raised; `mod` is what it was given."""


def pass_instrument(pi_cls: type | None = None) -> Any:
    """Class decorator: the class's methods serve as an instrument."""
    return pi_cls if pi_cls is not None else (lambda cls: cls)


class PassTimingInstrument(PassInstrument):
    """Measures every pass; `render()` gives the tree of passes: microseconds with and [without] the passes inside, shares of all and of
    the pass around."""

    def __init__(self) -> None:
        self.records: list[tuple[int, str, float]] = []
        self._open: list[tuple[int, float]] = []

    def enter_pass_ctx(self) -> None:
        self.records, self._open = [], []

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._open.append((len(self.records), time.perf_counter()))
        self.records.append((len(self._open) - 1, info.name, 0.0))

    def pass_failed(self, mod: IRModule, info: PassInfo) -> None:
        self.run_after_pass(mod, info)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        index, start = self._open.pop()
        depth, name, _ = self.records[index]
        self.records[index] = (depth, name, time.perf_counter() - start)

    def render(self) -> str:
        whole = sum(t for depth, _, t in self.records if depth == 0) or 1e-12
        own = [t for _, _, t in self.records]
        path: list[int] = []
        lines: list[tuple[int, str, float, float]] = []
        for i, (depth, name, t) in enumerate(self.records):
            del path[depth:]
            if path:
                own[path[-1]] -= t
            lines.append((depth, name, t, (self.records[path[-1]][2] if path else whole) or 1e-12))
            path.append(i)
        return "".join(
            [
                "\t" * depth + f"{name}: {t * 1e6:.0f}us [{alone * 1e6:.0f}us] ({t / whole:.2%}; {t / parent:.2%})\n"
                for (depth, name, t, parent), alone in zip(lines, own, strict=True)
            ]
        )


class PrintBeforeAll(PassInstrument):
    """Prints the module before each pass."""

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        print(f"# before {info.name}\n{mod}")


class PrintAfterAll(PassInstrument):
    """Prints the module after each pass."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        print(f"# after {info.name}\n{mod}")


class PassPrintingInstrument(PassInstrument):
    """Prints the module before and after the passes of these names."""

    def __init__(self, print_before_pass_names: Sequence[str] = (), print_after_pass_names: Sequence[str] = ()) -> None:
        self.before, self.after = frozenset(print_before_pass_names), frozenset(print_after_pass_names)

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        if info.name in self.before:
            print(f"# before {info.name}\n{mod}")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        if info.name in self.after:
            print(f"# after {info.name}\n{mod}")


class PrintBefore(PassPrintingInstrument):
    """Prints the module before the passes of these names: PrintBefore("FuseOps", "tir.Simplify"), or a list of them."""

    def __init__(self, *names: str | Sequence[str]) -> None:
        super().__init__(_each(names), ())


class PrintAfter(PassPrintingInstrument):
    """Prints the module after the passes of these names, or of a list of them."""

    def __init__(self, *names: str | Sequence[str]) -> None:
        super().__init__((), _each(names))


def _each(names: Sequence[str | Sequence[str]]) -> list[str]:
    return [n for given in names for n in ([given] if isinstance(given, str) else given)]


class PassVerifier(PassInstrument):
    """Checks functions after each pass that changed them, by the rules of their dialect: variables are bound once and where
    they are used, types are what the operators' rules say, programs on buffers are well-formed. Raises TVMError that names
    the pass (and says so when the module was wrong before the first pass)."""

    def __init__(self) -> None:
        self.seen: dict[int, BaseFunc] = {}

    def enter_pass_ctx(self) -> None:
        self.seen = {}

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._check(mod, f"the module is broken before pass {info.name} runs")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._check(mod, f"pass {info.name} broke the module")

    def _check(self, mod: IRModule, what: str) -> None:
        found: list[str] = []
        for gvar, func in mod.functions.items():
            if self.seen.get(id(func)) is not func:
                found += [f"@{gvar.name_hint}: {fault}" for fault in faults_of(func, mod)]
                # The function is kept, so that its number stays its own.
                self.seen[id(func)] = func
        if found:
            raise TVMError(f"{what}\n" + "\n".join(found))


class DumpIR(PassInstrument):
    """Writes the module after each pass to `dump_dir`/NNN_<pass>.ir; `refresh` removes such files there first."""

    def __init__(self, dump_dir: str | Path, refresh: bool = False) -> None:
        self.dump_dir, self.refresh, self.counter = Path(dump_dir), refresh, 0

    def enter_pass_ctx(self) -> None:
        self.counter = 0
        self.dump_dir.mkdir(parents=True, exist_ok=True)
        for old in self.dump_dir.glob("[0-9][0-9][0-9]_*.ir") if self.refresh else ():
            old.unlink()

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        name = "".join([c if c.isalnum() else "_" for c in info.name])
        (self.dump_dir / f"{self.counter:03d}_{name}.ir").write_text(f"{mod}\n")
        self.counter += 1


def print_changed(
    out: Callable[[str], None] = print, only: str | None = None
) -> Callable[[PassInfo, IRModule], Generator[None, IRModule, None]]:
    """An instrument that shows, as a unified diff, what each pass (or the one named `only`) changed."""

    def instrument(info: PassInfo, mod: IRModule) -> Generator[None, IRModule, None]:
        new = yield
        if new is not mod and only in (None, info.name):
            lines = diff(str(mod), str(new))
            out("\n".join([f"--- before {info.name}", f"+++ after {info.name}", *lines]))

    return instrument
