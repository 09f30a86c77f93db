"""ptxas, NVIDIA's assembler of PTX: found where a Python package or a toolkit has it."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tilewright.codegen.resources import Resources, read_log
from tilewright.support.cuda_files import packages, toolkits
from tilewright.support.errors import TVMError


@cache
def ptxas_path() -> Path | None:
    """The program; None where there is none."""
    found = [folder / "bin" / name for folder in [*packages(), *toolkits()] for name in ("ptxas", "ptxas.exe")]
    return next((path for path in found if path.is_file()), None)


def resources(ptx: str, arch: str) -> dict[str, Resources] | None:
    """What each kernel of PTX uses on an architecture such as "sm_80", by its name; None where there is no ptxas. Raises TVMError with its
    messages if it refuses the PTX."""
    program = ptxas_path()
    if program is None:
        return None
    with TemporaryDirectory() as folder:
        source = Path(folder) / "kernels.ptx"
        source.write_text(ptx)
        command = [str(program), "-v", f"-arch={arch}", str(source), "-o", str(source.with_suffix(".cubin"))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode:
        raise TVMError(f"ptxas ({program}) refused PTX for {arch}\n{said.strip()}")
    return read_log(said)


__all__ = ["ptxas_path", "resources"]
