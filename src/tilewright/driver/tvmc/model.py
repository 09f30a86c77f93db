"""What tvmc works on: a model, a package that was compiled from it, and the result of a run."""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from tilewright.contrib import utils
from tilewright.driver.tvmc.errors import TVMCException
from tilewright.ir import IRModule
from tilewright.runtime import BenchmarkResult, load_param_dict, save_param_dict
from tilewright.support.errors import TVMError
from tilewright.support.files import write_whole

LIBRARY, MACHINE, GRAPH, PARAMS, METADATA = "mod", "lib", "mod.json", "mod.params", "metadata.json"
"""Members of a package: the library of a model for the graph executor or the ahead-of-time executor, that of a program for the virtual
machine (each .so or .tar), the graph, the parameters; and that of the model library format."""
MODEL_JSON, MODEL_PARAMS, RECORDS = "model.json", "model.params", "tuning_records"
"""Members of a saved model."""
OUTPUT_FORMATS = ("so", "mlf")


class TVMCModel:
    """A model in relay: `mod`, and `params`, the values of its weights.

    mod, params: of an importer; or else model_path: a file that `save` wrote.
    """

    def __init__(
        self,
        mod: IRModule | None = None,
        params: Mapping[str, Any] | None = None,
        model_path: str | os.PathLike[str] | None = None,
    ) -> None:
        self._tmp_dir = utils.tempdir()
        if mod is not None and params is not None:
            self.mod, self.params = mod, dict(params)
        elif model_path is not None:
            self.load(model_path)
        else:
            raise TVMCException("Either mod and params must be provided, or a path to a previously saved TVMCModel")

    def save(self, model_path: str | os.PathLike[str]) -> None:
        """Writes the model: the program, the parameters, and the records of tuning, if there are any. No compiled code."""
        from tilewright.node import save_json

        members = {MODEL_JSON: save_json(self.mod).encode(), MODEL_PARAMS: save_param_dict(self.params)}
        records = Path(self.default_tuning_records_path())
        if records.is_file():
            members[RECORDS] = records.read_bytes()
        write_tar(model_path, members)

    def load(self, model_path: str | os.PathLike[str]) -> None:
        """Reads what `save` wrote."""
        from tilewright.node import load_json

        members = read_tar(model_path, lambda name: name in (MODEL_JSON, MODEL_PARAMS, RECORDS))
        if MODEL_JSON not in members or MODEL_PARAMS not in members:
            raise TVMCException(f"{model_path}: this file holds no model that TVMCModel.save wrote")
        try:
            self.mod = load_json(members[MODEL_JSON].decode())
            self.params = dict(load_param_dict(members[MODEL_PARAMS]))
        except (TVMError, ValueError) as error:
            raise TVMCException(f"{model_path}: {error}") from error
        if RECORDS in members:
            Path(self.default_tuning_records_path()).write_bytes(members[RECORDS])

    def default_tuning_records_path(self) -> str:
        """Where the records of tuning of this model are, unless another file is named."""
        return self._tmp_dir.relpath(RECORDS)

    def default_package_path(self) -> str:
        """Where the package of this model is written, unless another file is named. It goes with this object."""
        return self._tmp_dir.relpath("model_package.tar")

    def export_vm_format(
        self, vm_exec: Any, package_path: str | os.PathLike[str] | None = None, lib_format: str = "so"
    ) -> str:
        """Writes a program for the virtual machine as a package; returns its path."""
        path = os.fspath(package_path or self.default_package_path())
        write_tar(path, {f"{MACHINE}.{lib_format}": self._exported(vm_exec, f"{MACHINE}.{lib_format}", None, None)})
        return path

    def export_classic_format(
        self,
        executor_factory: Any,
        package_path: str | os.PathLike[str] | None = None,
        cross: str | Callable[..., Any] | None = None,
        cross_options: str | None = None,
        lib_format: str = "so",
    ) -> str:
        """Writes a compiled model as a package: library, graph and parameters; returns its path. cross: the compiler that links the
        library, or a function as `export_library` takes it; cross_options: its options, separated by spaces."""
        name = f"{LIBRARY}.{lib_format}"
        members = {name: self._exported(executor_factory, name, cross, cross_options)}
        if executor_factory.executor.name == "graph":
            members[GRAPH] = executor_factory.get_graph_json().encode()
        members[PARAMS] = save_param_dict(executor_factory.get_params())
        path = os.fspath(package_path or self.default_package_path())
        write_tar(path, members)
        return path

    def _exported(
        self, factory: Any, name: str, cross: str | Callable[..., Any] | None, cross_options: str | None
    ) -> bytes:
        """The bytes of a library."""
        place = utils.tempdir()
        library = factory if not hasattr(factory, "get_lib") or factory.executor.name != "graph" else factory.get_lib()
        options: dict[str, Any] = {}
        if cross:
            from tilewright.contrib import cc

            options = {
                "fcompile": cross if callable(cross) else cc.create_shared,
                "options": (cross_options or "").split(),
            }
            options |= {} if callable(cross) else {"cc": cross}
        library.export_library(place.relpath(name), **options)
        data = Path(place.relpath(name)).read_bytes()
        place.remove()
        return data

    def export_package(
        self,
        executor_factory: Any,
        package_path: str | os.PathLike[str] | None = None,
        cross: str | Callable[..., Any] | None = None,
        cross_options: str | None = None,
        output_format: str = "so",
    ) -> str:
        """Writes a compiled model as a package in one of the formats: "so", or "tar" for objects to link where it runs; "mlf", the model
        library format; returns its path."""
        from tilewright.runtime.vm import Executable

        if output_format not in (*OUTPUT_FORMATS, "tar"):
            raise TVMCException(f"Only 'so', 'tar' and 'mlf' output formats are supported, not {output_format!r}")
        if output_format == "mlf" and cross:
            raise TVMCException(
                "Specifying the MLF output and a cross compiler is not supported: it holds sources, or objects to link"
            )
        if isinstance(executor_factory, Executable):
            if output_format == "mlf" or cross:
                raise TVMCException(
                    "programs of the virtual machine are written as 'so' or 'tar', without a cross compiler"
                )
            return self.export_vm_format(executor_factory, package_path, output_format)
        if output_format == "mlf":
            from tilewright.micro.model_library_format import export_model_library_format

            return export_model_library_format(executor_factory, package_path or self.default_package_path())
        return self.export_classic_format(executor_factory, package_path, cross, cross_options, output_format)

    def summary(self, file: IO[str] | None = None) -> None:
        """Prints the program."""
        print(self.mod, file=file or sys.stdout)


class TVMCPackage:
    """A compiled model in a file: `type` ("classic", "vm" or "mlf"); `lib_path`, `lib_name`, the library; `graph`, JSON, None for other
    executors; `params`, bytes; `executor_type` ("graph", "aot" or "vm"); `project_dir`, a project for a microcontroller."""

    def __init__(self, package_path: str | os.PathLike[str], project_dir: str | os.PathLike[str] | None = None) -> None:
        self._tmp_dir = utils.tempdir()
        self.package_path = os.fspath(package_path)
        self.project_dir = os.fspath(project_dir) if project_dir is not None else None
        self.lib_name: str | None = None
        self.lib_path: str | None = None
        self.graph: str | None = None
        self.params = bytearray()
        self.import_package(self.package_path)

    def import_package(self, package_path: str | os.PathLike[str]) -> None:
        """Reads a package. Raises TVMCException for a file that is none."""
        libraries = [f"{stem}.{suffix}" for stem in (LIBRARY, MACHINE) for suffix in ("so", "tar")]
        described = (METADATA, "executor-config/", "parameters/")
        members = read_tar(package_path, lambda name: name in (*libraries, GRAPH, PARAMS) or name.startswith(described))
        if METADATA in members:
            self._import_model_library(members)
            return
        self.lib_name = next((name for name in libraries if name in members), None)
        if self.lib_name is None:
            raise TVMCException(
                f"{package_path}: this file is no package of tvmc: it holds neither of {', '.join(libraries)}, nor {METADATA}."
                " `tvmc compile MODEL -o package.tar` writes one"
            )
        self.lib_path = self._tmp_dir.relpath(self.lib_name)
        Path(self.lib_path).write_bytes(members[self.lib_name])
        self.type = "vm" if self.lib_name.startswith(MACHINE) else "classic"
        self.graph = members[GRAPH].decode() if GRAPH in members else None
        self.executor_type = "vm" if self.type == "vm" else "graph" if self.graph is not None else "aot"
        self.params = bytearray(members.get(PARAMS, b""))

    def _import_model_library(self, members: Mapping[str, bytes]) -> None:
        """The same of the model library format."""
        self.type = "mlf"
        try:
            modules = json.loads(members[METADATA])["modules"]
            executors = {name: list(facts["executors"]) for name, facts in modules.items()}
        except (ValueError, KeyError, TypeError) as error:
            raise TVMCException(
                f"{self.package_path}: its {METADATA} is not as the model library format has it: {error!r}"
            ) from error
        self.executor_type = "graph" if any(["graph" in found for found in executors.values()]) else "aot"
        for name in executors:
            graph = members.get(f"executor-config/graph/{name}.graph")
            self.graph = graph.decode() if graph is not None else self.graph
            self.params += members.get(f"parameters/{name}.params", b"")


class TVMCResult:
    """The result of a run: `outputs`, arrays by name (output_0, ...); `times`, of the measurement, if one was made."""

    def __init__(self, outputs: Mapping[str, np.ndarray[Any, Any]], times: BenchmarkResult | Sequence[float]) -> None:
        self.outputs, self.times = dict(outputs), times

    def format_times(self) -> str:
        """The times as a table."""
        return str(self.times)

    def __str__(self) -> str:
        return f"{self.format_times()}\nOutput Names:\n {list(self.outputs)}"

    def get_output(self, name: str) -> np.ndarray[Any, Any]:
        """An output."""
        if name not in self.outputs:
            raise TVMCException(f"there is no output {name!r}; there are {', '.join(self.outputs)}")
        return self.outputs[name]

    def save(self, output_path: str | os.PathLike[str]) -> None:
        """Writes the outputs as an .npz file."""
        data = io.BytesIO()
        np.savez(data, **self.outputs)  # type: ignore[arg-type]
        write_whole(output_path, data.getvalue())


def write_tar(path: str | os.PathLike[str], members: Mapping[str, bytes]) -> None:
    """Writes an archive of files, the same for the same files."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    write_whole(path, data.getvalue())


def read_tar(path: str | os.PathLike[str], wanted: Callable[[str], bool]) -> dict[str, bytes]:
    """The wanted files of an archive, by their names there. Raises TVMCException for a file that is none."""
    if not os.path.isfile(path):
        raise TVMCException(f"{path}: there is no such file")
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                name = member.name.removeprefix("./")
                data = tar.extractfile(member) if member.isfile() and wanted(name) else None
                if data is not None:
                    found[name] = data.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        why = f": {error}" if isinstance(error, OSError) else ""
        raise TVMCException(
            f"{path}: this file is no package of tvmc (.tar), or a damaged one{why}. `tvmc compile MODEL -o package.tar` writes one"
        ) from error
    return found
