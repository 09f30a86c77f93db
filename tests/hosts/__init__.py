"""Programs in other languages than Python over the runtime: how they are built and run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tilewright.runtime import libinfo
from tilewright.runtime.linking.c_source import compiler_command

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
CHECKED = ("classic", "programs")
"""Programs of this folder that check the classic interface, and print "fine"."""
PRINTED = {
    "graph_executor": "addone: as expected\n1 12 23 34 from one file\n1 3 5 7 from three files\n",
    "aot": "1 12 23 34 ahead of time\nValueError: input `x` must have shape (2, 2), got (2, 3)\n",
    "virtual_machine": "321 0 3 6 of the virtual machine\n",
    "c_api": "1 12 23 34 in C\ntwice: 42\nTypeError: twice takes a whole number\n",
}
"""What the programs of examples/cpp print."""


def run(command: Sequence[str | Path], **env: str) -> str:
    """What a program prints; it must end well."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **env}, timeout=600)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def compile_cpp(source: Path, output: Path, *options: str, compiler: Sequence[str] | None = None) -> Path:
    """A program or library of one file in C++, without warnings."""
    command = [*(compiler or compiler_command("c++")), "-Wall", "-Wextra", "-Werror", *libinfo.compile_options()]
    run([*command, source, "-o", output, *options])
    return output


def build_examples(folder: Path) -> Path:
    """The programs and the plug-in of examples/cpp, and the models that they run; the folder of all."""
    for name in PRINTED:
        source = next((EXAMPLES / "cpp").glob(f"{name}.c*"))
        if source.suffix == ".c":
            command = [*compiler_command("c"), "-Wall", "-Wextra", "-Werror", *libinfo.compile_options()]
            run([*command, source, "-o", folder / name, *libinfo.link_options()])
        else:
            compile_cpp(source, folder / name, "-std=c++17", "-O0", *libinfo.link_options())
    compile_cpp(EXAMPLES / "cpp" / "plugin.cc", folder / "plugin.so", "-std=c++17", "-O0", "-fPIC", "-shared")
    run([sys.executable, EXAMPLES / "cpp" / "models.py", folder / "models"])
    return folder
