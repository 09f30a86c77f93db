"""Projects: firmware with a model as a folder, made of a template, which its own server builds, flashes and talks to."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.micro.errors import MicroError
from tilewright.micro.faults import told_fault
from tilewright.micro.linking.elf import linked_functions, linked_lines
from tilewright.micro.linking.lines import source_place
from tilewright.micro.project_api.client import ProjectAPIClient, instantiate_from_dir
from tilewright.micro.project_api.server import ProjectOption, ServerInfo, TransportTimeouts
from tilewright.micro.standalone import get_standalone_crt_dir
from tilewright.micro.transport.base import Transport

if TYPE_CHECKING:
    from tilewright.micro.model_library_format import ExportableModule

Folder = str | os.PathLike[str]
FIRMWARE = "firmware.elf"
"""The file of a project that has the names of its functions."""


class TemplateProjectError(MicroError):
    """A template cannot do that: it is no project yet."""


class NotATemplateProjectError(MicroError):
    """A project cannot make projects: it is no template."""


class ProjectTransport(Transport):
    """The line to a project's device, by way of the project's server."""

    def __init__(
        self, api_client: ProjectAPIClient, options: Mapping[str, Any], folder: str | os.PathLike[str] | None = None
    ) -> None:
        self._client, self._options = api_client, dict(options)
        self._folder = Path(folder) if folder is not None else None
        self._timeouts: TransportTimeouts | None = None

    def timeouts(self) -> TransportTimeouts:
        if self._timeouts is None:
            raise MicroError("the transport of the project is not open, so its times are not known")
        return self._timeouts

    def open(self) -> None:
        self._timeouts = self._client.open_transport(self._options)

    def close(self) -> None:
        if not self._client.is_shutdown:
            self._client.close_transport()

    def explain(self, text: str) -> str:
        folder = self._folder
        program = folder / FIRMWARE if folder is not None else None
        if folder is None or program is None or not program.is_file():
            return told_fault(text, [])
        data = program.read_bytes()
        return told_fault(text, linked_functions(data), lambda address: _line(folder, linked_lines(data), address))

    def read(self, n: int, timeout_sec: float | None) -> bytes:
        return self._client.read_transport(n, timeout_sec)

    def write(self, data: bytes, timeout_sec: float | None) -> None:
        self._client.write_transport(data, timeout_sec)


def _line(folder: Path, lines: bytes, address: int) -> str:
    """The line of source of an address of a project's firmware, with its place; "" where that is not known."""
    path, number = source_place(lines, address) or ("", 0)
    # Texts of objects are named without their folder.
    path = next((p for p in (path, f"model/{path}") if p and (folder / p).is_file()), "")
    if not path:
        return ""
    text = (folder / path).read_text(errors="replace").splitlines()
    return f"{path}:{number}: {text[number - 1].strip()}" if number <= len(text) else f"{path}:{number}"


def add_unspecified_options(
    options: Mapping[str, Any], server_project_options: Sequence[ProjectOption]
) -> dict[str, Any]:
    """Options with the defaults of those that are not given."""
    return {o.name: o.default for o in server_project_options} | dict(options)


class GeneratedProject:
    """A project. options: of all that is done with it."""

    @classmethod
    def from_directory(cls, project_dir: Folder, options: Mapping[str, Any] | None = None) -> GeneratedProject:
        """The project of a folder, whose server is started. Raises ProjectAPIServerNotFoundError."""
        return cls(instantiate_from_dir(project_dir), options or {})

    def __init__(self, api_client: ProjectAPIClient, options: Mapping[str, Any] | None = None) -> None:
        self._client = api_client
        self._info = api_client.server_info_query()
        if self._info.is_template:
            raise TemplateProjectError(
                "this is a template, which is neither built nor flashed; generate_project makes a project of it"
            )
        self._options: dict[str, Any] = dict(options or {})

    @property
    def options(self) -> dict[str, Any]:
        """The options of all that is done with it."""
        return self._options

    @options.setter
    def options(self, options: Mapping[str, Any]) -> None:
        self._options = dict(options)

    def _given(self, method: str) -> dict[str, Any]:
        """The options that a method takes. Raises MicroError for options that the project has not."""
        known = {o.name: o for o in self._info.project_options}
        unknown = [name for name in self.options if name not in known]
        if unknown:
            raise MicroError(f"the project has no option {unknown[0]!r}; it has {', '.join(known)}")
        return {
            name: value
            for name, value in self.options.items()
            if method in (*(known[name].required or ()), *(known[name].optional or ()))
        }

    def build(self) -> None:
        """Compiles the firmware."""
        self._client.build(self._given("build"))

    def flash(self) -> None:
        """Brings the firmware to the device."""
        self._client.flash(self._given("flash"))

    def transport(self) -> ProjectTransport:
        """The line to the device, for `micro.Session`."""
        model = self._info.model_library_format_path
        return ProjectTransport(
            self._client, self._given("open_transport"), Path(model).parent if model is not None else None
        )

    def info(self) -> ServerInfo:
        """What the project is."""
        return self._info

    def close(self) -> None:
        """Ends the project's server."""
        self._client.shutdown()


class TemplateProject:
    """A template."""

    @classmethod
    def from_directory(cls, template_project_dir: Folder) -> TemplateProject:
        """The template of a folder, whose server is started. Raises ProjectAPIServerNotFoundError."""
        return cls(instantiate_from_dir(template_project_dir))

    def __init__(self, api_client: ProjectAPIClient) -> None:
        self._client = api_client
        self._info = api_client.server_info_query()
        if not self._info.is_template:
            raise NotATemplateProjectError("this is a project, not a template: it was made of one already")

    def _check(self, options: Mapping[str, Any]) -> None:
        known = {o.name: o for o in self._info.project_options}
        unknown = [name for name in options if name not in known]
        if unknown:
            raise MicroError(f"the template has no option {unknown[0]!r}; it has {', '.join(known)}")
        missing = [
            n
            for n, o in known.items()
            if "generate_project" in (o.required or ()) and options.get(n, o.default) is None
        ]
        if missing:
            of = known[missing[0]]
            choices = f" It is one of {', '.join(of.choices)}" if of.choices else ""
            raise MicroError(f"the template needs the option {missing[0]!r}: {of.help}{choices}")

    def generate_project_from_mlf(
        self, model_library_format_path: Folder, project_dir: Folder, options: Mapping[str, Any] | None = None
    ) -> GeneratedProject:
        """Makes a project of a package in the model library format, in a new folder."""
        given = dict(options or {})
        self._check(given)
        paths = [o.name for o in self._info.project_options if o.type == "path" and given.get(o.name) is not None]
        # The server works in another folder.
        given |= {name: os.fspath(Path(given[name]).resolve()) for name in paths}
        folder = Path(project_dir).resolve()
        self._client.generate_project(
            Path(model_library_format_path).resolve(), get_standalone_crt_dir(), folder, given
        )
        return GeneratedProject.from_directory(folder, given)

    def generate_project(
        self, graph_executor_factory: ExportableModule, project_dir: Folder, options: Mapping[str, Any] | None = None
    ) -> GeneratedProject:
        """Makes a project of a model of relay.build, or of a module of tvm.build, in a new folder."""
        # Servers make projects of packages that others wrote: they do without the compiler.
        from tilewright.micro.model_library_format import export_model_library_format

        with tempfile.TemporaryDirectory(prefix="tilewright-project-") as place:
            package = export_model_library_format(graph_executor_factory, Path(place) / "model.tar")
            return self.generate_project_from_mlf(package, project_dir, options)

    def info(self) -> ServerInfo:
        """What the template is."""
        return self._info

    def close(self) -> None:
        """Ends the template's server."""
        self._client.shutdown()


def generate_project(
    template_project_dir: Folder,
    module: ExportableModule,
    generated_project_dir: Folder,
    options: Mapping[str, Any] | None = None,
) -> GeneratedProject:
    """Makes a project of a template and of compiled code.

    template_project_dir: such as of `get_microtvm_template_projects`. module: of relay.build or tvm.build, for the target c, or llvm.
    generated_project_dir: a new folder. options: of the project; `TemplateProject.info` lists them.

    Raises MicroError for options that the template has not, or that it needs; JSONRPCError where its server fails.
    """
    template = TemplateProject.from_directory(template_project_dir)
    try:
        return template.generate_project(module, generated_project_dir, options)
    finally:
        template.close()


def generate_project_from_mlf(
    template_project_dir: Folder, project_dir: Folder, mlf_path: Folder, options: Mapping[str, Any] | None = None
) -> GeneratedProject:
    """Makes a project of a template and of a package in the model library format (mlf_path)."""
    template = TemplateProject.from_directory(template_project_dir)
    try:
        return template.generate_project_from_mlf(mlf_path, project_dir, options)
    finally:
        template.close()


__all__ = [
    "GeneratedProject", "NotATemplateProjectError", "ProjectTransport", "TemplateProject", "TemplateProjectError",
    "add_unspecified_options", "generate_project", "generate_project_from_mlf",
]  # fmt: skip
