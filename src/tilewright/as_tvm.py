"""Scripts written for TVM, run on this package: `import tvm`, and every module below it, mean `tilewright`; `import vta` means
`tilewright.vta`.

python -m tilewright.as_tvm script.py args...     runs a script
python -m tilewright.as_tvm -m module args...     runs a module (`-m pytest tests`, `-m pdb script.py`)
import tilewright.as_tvm                          does it for the rest of a program
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import runpy
import sys
import types
from collections.abc import Sequence
from typing import Any, NoReturn

from tilewright.support.absent import reason_for
from tilewright.support.lazy import PackageModule
from tilewright.support.preloading import EVERYWHERE

ALIASES = {"tvm": "tilewright", "vta": "tilewright.vta"}
_SELF = "tilewright.as_tvm"
USAGE = "usage: python -m tilewright.as_tvm [-m module | script.py] args..."


def _real(name: str) -> types.ModuleType | None:
    """The module of this package that an alias stands for: a module file, or one that a package holds by name."""
    alias, _, below = name.partition(".")
    path = f"{ALIASES[alias]}.{below}" if below else ALIASES[alias]
    if path in sys.modules:
        return sys.modules[path]
    if not below:
        return importlib.import_module(path)
    holder, last = _real(name.rpartition(".")[0]), path.rpartition(".")[2]
    if holder is None:
        return None
    # A package may call another of its modules by this name: `tvm.nd` is the module runtime.ndarray.
    held = getattr(holder, last, None)
    # Its code may have declared a module of this name beside something else that has it, such as a function.
    if path in sys.modules:
        return sys.modules[path]
    if isinstance(held, types.ModuleType):
        return held
    if getattr(holder, "__path__", None) is None or importlib.util.find_spec(f"{holder.__name__}.{last}") is None:
        return None
    return importlib.import_module(f"{holder.__name__}.{last}")


def refuse(below: str) -> NoReturn:
    """Tells why a module of TVM is not here. The error has another name than the one asked for, or the import system would hide it."""
    raise ModuleNotFoundError(f"there is no tvm.{below} here: {reason_for(below)}", name=f"{_SELF}:{below}")


class _Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `tvm.x.y` as the very module object `tilewright.x.y`."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        head, _, below = fullname.partition(".")
        if head not in ALIASES:
            # `from tvm.contrib import x` asks the module tilewright.contrib for its x.
            if (
                head == "tilewright"
                and reason_for(below)
                and not importlib.machinery.PathFinder.find_spec(fullname, path)
            ):
                refuse(below)
            return None
        module = _real(fullname)
        if module is None:
            if head == "tvm" and reason_for(below):
                refuse(below)
            return None
        spec = importlib.machinery.ModuleSpec(fullname, self, is_package=hasattr(module, "__path__"))
        spec.loader_state = (module, module.__spec__)
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module: types.ModuleType = spec.loader_state[0]
        return module

    def get_code(self, fullname: str) -> types.CodeType | None:
        """The code of a module that is run as the main program (`-m tvm.driver.tvmc`)."""
        module = _real(fullname)
        loader: Any = module.__spec__.loader if module is not None and module.__spec__ is not None else None
        code: types.CodeType | None = loader.get_code(module.__name__) if module is not None and loader else None
        return code

    def exec_module(self, module: types.ModuleType) -> None:
        # The import system has put the alias's spec on the module; it gets back the one that it was loaded by.
        spec = module.__spec__
        assert spec is not None
        module.__spec__ = spec.loader_state[1]
        # And it is about to put the module into its package, which is done already, or has another thing of that name.
        holder = sys.modules.get(spec.name.rpartition(".")[0])
        if type(holder) is types.ModuleType:
            holder.__class__ = PackageModule


def install() -> None:
    """Makes `tvm` and `vta` mean this package from now on. Raises ImportError where others of these names have been imported already."""
    for alias, own in ALIASES.items():
        loaded = sys.modules.get(alias)
        if loaded is not None and loaded.__name__ != own:
            raise ImportError(
                f"{alias} has been imported already, from {getattr(loaded, '__file__', 'elsewhere')};"
                " import tilewright.as_tvm before it",
                name=alias,
            )
    if not any([isinstance(finder, _Alias) for finder in sys.meta_path]):
        sys.meta_path.insert(0, _Alias())
        EVERYWHERE.append(_SELF)


def uninstall() -> None:
    """Ends what `install` began; modules that hold the package under another name keep it."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Alias)]
    EVERYWHERE[:] = [name for name in EVERYWHERE if name != _SELF]
    for name in [n for n in sys.modules if n.partition(".")[0] in ALIASES]:
        del sys.modules[name]


def _show_from_script(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
    """An uncaught error, without the frames that lead to the script."""
    first = trace
    while first is not None and first.tb_frame.f_globals.get("__name__") in ("runpy", "__main__", __name__):
        inside = first.tb_frame.f_globals
        if inside.get("__name__") == "__main__" and inside.get("__file__") != __file__:
            break
        first = first.tb_next
    shown = first or trace
    sys.__excepthook__(kind, error.with_traceback(shown), shown)


def run_script(path: str) -> None:
    """Runs a Python file as the main program. Raises what it raises."""
    with io.open_code(path) as file:
        # A script has the features that it imports itself, not those of this module.
        code = compile(file.read(), path, "exec", dont_inherit=True)
    main_module = types.ModuleType("__main__")
    main_module.__dict__.update(__file__=path, __builtins__=__builtins__)
    sys.modules["__main__"] = main_module
    exec(code, main_module.__dict__)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs what the command line names; exits with status 2 and the usage when it names nothing."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or (arguments[0] == "-m" and len(arguments) < 2) or arguments[0] in ("-h", "--help"):
        wanted = bool(arguments) and arguments[0] in ("-h", "--help")
        print(__doc__ if wanted else USAGE, file=sys.stdout if wanted else sys.stderr)
        sys.exit(0 if wanted else 2)
    install()
    sys.excepthook = _show_from_script
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    if not os.path.isfile(arguments[0]):
        print(f"as_tvm: there is no file {arguments[0]!r}\n{USAGE}", file=sys.stderr)
        sys.exit(2)
    sys.argv = arguments
    sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
    run_script(arguments[0])


if __name__ == "__main__":
    from tilewright.as_tvm import main as _main

    _main()
else:
    install()
