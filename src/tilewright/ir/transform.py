"""Passes are values: frozen records of a name, options, what they need and give, and a function on modules."""

from __future__ import annotations

import functools
import inspect
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from tilewright.ir.expr import BaseFunc, GlobalVar
from tilewright.ir.module import IRModule
from tilewright.ir.options import OPTIONS, check_option
from tilewright.ir.options import register_config_option as register_config_option
from tilewright.support.errors import TVMError

ModuleFunction = Callable[[IRModule, "PassContext"], IRModule]
F = TypeVar("F", bound=Callable[..., Any])

_factories: dict[str, Callable[[], Any]] = {}


def register_pass(name: str, factory: Callable[[], Any]) -> None:
    """Says what makes the pass of that name, for passes that name it as required."""
    _factories[name] = factory


class PassInfo:
    """Facts about a pass: its level (it runs if the context's is as high), its name, and the names of
    the passes that a Sequential runs right before it."""

    __slots__ = ("gives", "name", "needs", "opt_level", "required", "traceable")

    def __init__(
        self,
        opt_level: int,
        name: str,
        required: Sequence[str] = (),
        needs: Sequence[str] = (),
        gives: Sequence[str] = (),
    ) -> None:
        self.opt_level, self.name, self.required = opt_level, name, tuple(required)
        self.needs, self.gives, self.traceable = tuple(needs), tuple(gives), True

    def __repr__(self) -> str:
        return f"PassInfo({self.name}, opt_level={self.opt_level}, required={list(self.required)})"


_HOOKS = ("enter_pass_ctx", "exit_pass_ctx", "should_run", "run_before_pass", "run_after_pass", "pass_failed")


def _checked_instruments(given: Iterable[Any] | None) -> tuple[Any, ...]:
    """The instruments. Raises TypeError for what could not be told of any pass."""
    found = tuple(given or ())
    for i in found:
        if not inspect.isgeneratorfunction(i) and not any([hasattr(i, hook) for hook in _HOOKS]):
            raise TypeError(
                f"an instrument is a generator function, or has any of {', '.join(_HOOKS[:5])}, but {i!r} was given"
            )
    return found


class PassContext:
    """The settings under which passes run; `with PassContext(opt_level=3):` makes it current in this thread.

    instruments: objects with any of enter_pass_ctx, exit_pass_ctx, should_run(mod, info),
    run_before_pass(mod, info), run_after_pass(mod, info), pass_failed(mod, info); or generator functions of
    (info, mod) that yield once and are sent the new module, or closed when the pass fails.
    """

    _local = threading.local()

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Iterable[str] | None = None,
        disabled_pass: Iterable[str] | None = None,
        instruments: Iterable[Any] | None = None,
        config: Mapping[str, Any] | None = None,
        trace: Any = None,
        trace_stack: Any = None,
        make_traceable: Any = None,
        num_evals: int = 0,
        tuning_api_database: Any = None,
    ) -> None:
        if not isinstance(opt_level, int) or not 0 <= opt_level <= 4:
            raise ValueError(f"PassContext.opt_level must be an int in 0..4, but is {opt_level!r}")
        self.opt_level = opt_level
        self.required_pass = tuple(required_pass or ())
        self.disabled_pass = tuple(disabled_pass or ())
        self.instruments = _checked_instruments(instruments)
        self.config = dict(config or {})
        for key, value in self.config.items():
            check_option(key, value)

    def __repr__(self) -> str:
        return (
            f"PassContext(opt_level={self.opt_level}, required_pass={list(self.required_pass)},"
            f" disabled_pass={list(self.disabled_pass)}, config={self.config})"
        )

    @staticmethod
    def list_configs() -> dict[str, Any]:
        return dict(OPTIONS)

    @staticmethod
    def current() -> PassContext:
        """The innermost context entered in this thread, or the thread's default one."""
        here = PassContext._local.__dict__
        stack: list[PassContext] | None = here.get("stack")
        if stack:
            return stack[-1]
        default: PassContext | None = here.get("default")
        if default is None:
            default = here["default"] = PassContext()
        return default

    def __enter__(self) -> Self:
        stack = self._local.__dict__.setdefault("stack", [])
        stack.append(self)
        try:
            self._enter_instruments()
        except BaseException:
            stack.pop()
            raise
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self._local.stack.pop()
        self._exit_instruments()

    def override_instruments(self, instruments: Iterable[Any] | None) -> None:
        """Other instruments from now on (None: no instruments); those that were there are told to exit."""
        self._exit_instruments()
        self.instruments = _checked_instruments(instruments)
        self._enter_instruments()

    def _enter_instruments(self) -> None:
        """Tells all instruments; when one raises, those that had entered exit, and the context has no instruments."""
        entered: list[Any] = []
        try:
            for instrument in self.instruments:
                if hasattr(instrument, "enter_pass_ctx"):
                    instrument.enter_pass_ctx()
                entered.append(instrument)
        except BaseException:
            self.instruments = tuple(entered)
            self._exit_instruments()
            self.instruments = ()
            raise

    def _exit_instruments(self) -> None:
        """Tells all instruments; when one raises, the context has no instruments."""
        try:
            for instrument in self.instruments:
                if hasattr(instrument, "exit_pass_ctx"):
                    instrument.exit_pass_ctx()
        except BaseException:
            self.instruments = ()
            raise

    def pass_enabled(self, info: PassInfo) -> bool:
        """Whether a pass runs here, by level and by the lists of required and disabled passes."""
        if info.name in self.disabled_pass:
            return False
        return info.name in self.required_pass or self.opt_level >= info.opt_level

    @contextmanager
    def instrumented(self, info: PassInfo, mod: IRModule) -> Iterator[Callable[[IRModule], None]]:
        """Runs the instruments around one pass; the body hands the new module to the function yielded."""
        started: list[Any] = []
        for instrument in self.instruments:
            if inspect.isgeneratorfunction(instrument):
                generator = instrument(info, mod)
                next(generator)
                started.append(generator)
            elif hasattr(instrument, "run_before_pass"):
                instrument.run_before_pass(mod, info)
        result: list[IRModule] = []
        try:
            yield result.append
        except BaseException:
            for instrument in self.instruments:
                if hasattr(instrument, "pass_failed"):
                    instrument.pass_failed(mod, info)
            for generator in started:
                generator.close()
            raise
        for instrument in self.instruments:
            if hasattr(instrument, "run_after_pass"):
                instrument.run_after_pass(result[0], info)
        for generator in started:
            try:
                generator.send(result[0])
            except StopIteration:
                continue
            raise TVMError(f"instrument {generator.__name__} must yield exactly once")

    def wants(self, info: PassInfo, mod: IRModule) -> bool:
        """Whether no instrument objects to the pass; required passes run all the same."""
        if info.name in self.required_pass:
            return True
        return all([i.should_run(mod, info) for i in self.instruments if hasattr(i, "should_run")])


class Pass:
    """A transformation of modules. Call it on an IRModule."""

    info: PassInfo

    def __init__(self, info: PassInfo, run: ModuleFunction) -> None:
        self.info, self._run = info, run

    @property
    def name(self) -> str:
        return self.info.name

    def __call__(self, mod: IRModule) -> IRModule:
        return self.run(mod, PassContext.current())

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        if not isinstance(mod, IRModule):
            raise TypeError(f"pass {self.info.name} takes an IRModule, but was given {type(mod).__name__}")
        if not ctx.wants(self.info, mod):
            return mod
        if not ctx.instruments:
            return self._checked(mod, ctx)
        with ctx.instrumented(self.info, mod) as done:
            new = self._checked(mod, ctx)
            done(new)
        return new

    def _checked(self, mod: IRModule, ctx: PassContext) -> IRModule:
        new = self._run(mod, ctx)
        if not isinstance(new, IRModule):
            raise TypeError(f"pass {self.info.name} must return an IRModule, but returned {type(new).__name__}")
        return new

    def __repr__(self) -> str:
        return f"<pass {self.info.name} at opt_level {self.info.opt_level}>"


def _factory(name: str, needed_by: Pass) -> Pass:
    """A pass by its name. Raises TVMError if there is none."""
    if name not in _factories:
        # A package of passes is read when one of its names is first used.
        dialect, _, short = name.rpartition(".")
        getattr(sys.modules.get(f"tilewright.{dialect or 'relay'}.transform"), short, None)
    if name not in _factories:
        raise TVMError(f"{needed_by.name} requires the pass {name!r}, but no pass has that name")
    made: Pass = _factories[name]()
    return made


class Sequential(Pass):
    """Passes in order, those that the context enables; a wrong order is refused when it is built.

    A property that a pass needs must be given by an earlier pass of the sequence, if any pass of it gives it.
    """

    def __init__(
        self,
        passes: Sequence[Pass] = (),
        opt_level: int = 0,
        name: str = "sequential",
        required: Sequence[str] = (),
        traceable: bool = True,
    ) -> None:
        self.passes = tuple(passes)
        given_somewhere = {g for p in self.passes for g in p.info.gives}
        have: set[str] = set()
        for p in self.passes:
            for need in p.info.needs:
                if need in given_somewhere and need not in have:
                    giver = next(q.name for q in self.passes if need in q.info.gives)
                    raise TVMError(
                        f"{name}: {p.name} needs {need!r}, which {giver} gives only later; put {giver} first"
                    )
            have.update(p.info.gives)
        super().__init__(PassInfo(opt_level, name, required), self._run_all)

    def _run_all(self, mod: IRModule, ctx: PassContext) -> IRModule:
        for p in self.passes:
            if ctx.pass_enabled(p.info):
                for name in p.info.required:
                    mod = _factory(name, p).run(mod, ctx)
                mod = p.run(mod, ctx)
        return mod


ModulePass = Pass
"""A pass that `module_pass` makes."""


def ApplyPassToFunction(
    transform: Pass, func_name_regex: str, error_if_no_function_matches_regex: bool = False
) -> Pass:
    """A pass that shows `transform` only the functions whose whole name matches; the others stay as they are."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        chosen = {g: f for g, f in mod.functions.items() if re.fullmatch(func_name_regex, g.name_hint)}
        if not chosen:
            if error_if_no_function_matches_regex:
                names = ", ".join(sorted([g.name_hint for g in mod.functions]))
                raise ValueError(f"no function's name matches {func_name_regex!r}; the module has {names}")
            return mod
        rest = {g: f for g, f in mod.functions.items() if g not in chosen}
        return mod.with_functions({**rest, **transform.run(mod.with_functions(chosen), ctx).functions})

    return Pass(PassInfo(0, f"ApplyPassTo{func_name_regex}"), run)


def module_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] = (),
    traceable: bool = False,
    needs: Sequence[str] = (),
    gives: Sequence[str] = (),
) -> Any:
    """Makes a pass of `f(mod, ctx) -> mod`, or a pass factory of a class with `transform_module`."""
    return _decorate(pass_func, "transform_module", opt_level, name, required, needs, gives, lambda run, info: run)


def function_pass_of(func_type: type, kind: type[Pass] = Pass) -> Callable[..., Any]:
    """The decorator for passes, of class `kind`, on functions of one dialect: `f(func, mod, ctx) -> func`."""

    def decorator(
        pass_func: Any = None,
        opt_level: int | None = None,
        name: str | None = None,
        required: Sequence[str] = (),
        traceable: bool = False,
        needs: Sequence[str] = (),
        gives: Sequence[str] = (),
    ) -> Any:
        """Make a pass of `f(func, mod, ctx) -> func`. Given a class with `transform_function`, make a pass factory."""

        def over_functions(run: Callable[..., Any], info: PassInfo) -> ModuleFunction:
            def run_module(mod: IRModule, ctx: PassContext) -> IRModule:
                functions: dict[GlobalVar, BaseFunc] = {}
                for gvar, func in mod.functions.items():
                    functions[gvar] = run(func, mod, ctx) if isinstance(func, func_type) else func
                return mod.with_functions(functions)

            return run_module

        return _decorate(pass_func, "transform_function", opt_level, name, required, needs, gives, over_functions, kind)

    return decorator


def _of_inner(attr: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A method of the decorated class as one of the pass."""

    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.inner, attr)(*args, **kwargs)

    return call


def _decorate(
    pass_func: Any,
    method: str,
    opt_level: int | None,
    name: str | None,
    required: Sequence[str],
    needs: Sequence[str],
    gives: Sequence[str],
    lift: Callable[[Callable[..., Any], PassInfo], ModuleFunction],
    kind: type[Pass] = Pass,
) -> Any:
    def decorate(target: Any) -> Any:
        info = PassInfo(opt_level or 0, name or target.__name__, required, needs, gives)
        if not inspect.isclass(target):
            return kind(info, lift(target, info))

        class ClassPass(kind):  # type: ignore[misc, valid-type]
            """A pass whose options are the constructor's arguments of the decorated class."""

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                self.inner = target(*args, **kwargs)
                super().__init__(info, lift(getattr(self.inner, method), info))

            def __getattr__(self, attr: str) -> Any:
                return getattr(self.inner, attr)

        for attr, function in inspect.getmembers(target, inspect.isfunction):
            if not attr.startswith("_") and not hasattr(kind, attr):
                setattr(ClassPass, attr, _of_inner(attr, function))
        for attr in ("__name__", "__qualname__", "__doc__", "__module__"):
            setattr(ClassPass, attr, getattr(target, attr))
        return ClassPass

    return decorate(pass_func) if pass_func is not None else decorate


def PrintIR(header: str = "", show_meta_data: bool = False) -> Pass:
    """A pass that prints the module and leaves it as it is."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        print(f"{header}\n{mod}" if header else str(mod))
        return mod

    return Pass(PassInfo(0, "PrintIR"), run)
