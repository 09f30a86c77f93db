"""What connects projects and AutoTVM: how a configuration is built, and how it gets to a board of a tracker."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tilewright.autotvm.measure.building import exports_modules
from tilewright.micro.model_library_format import export_model_library_format
from tilewright.micro.offers import CREATE_SESSION, offer_sessions
from tilewright.micro.standalone import (
    CrtNotFoundError,
    MicroTVMTemplateProject,
    MicroTVMTemplateProjectNotFoundError,
    get_microtvm_template_projects,
    get_standalone_crt_dir,
)
from tilewright.rpc import RPCSession, connect_tracker
from tilewright.runtime import Module


@exports_modules("model-library-format")
def autotvm_build_func(module: Module, path: str | os.PathLike[str]) -> str:
    """`LocalBuilder(build_func=micro.autotvm_build_func)`: configurations become packages in the model library format.

    module: of tvm.build. path: of the package. Returns it."""
    return export_model_library_format(module, path)


class AutoTvmModuleLoader:
    """`RPCRunner(..., module_loader=AutoTvmModuleLoader(template, options))`: each configuration becomes a project, which the server of a
    board builds, flashes, and talks to.

    template_project_dir: the folder of a template, on the machines of the servers. project_options: of it. project_dir: where projects are
    made there; default: a temporary folder. use_existing: whether a project that is in project_dir already gives way to the new one.
    """

    def __init__(
        self,
        template_project_dir: str | os.PathLike[str],
        project_options: Mapping[str, Any] | None = None,
        project_dir: str | os.PathLike[str] | None = None,
        use_existing: bool = False,
    ) -> None:
        self._template = os.fspath(template_project_dir)
        self._options = json.dumps(dict(project_options or {}))
        self._folder = os.fspath(project_dir) if project_dir is not None else ""
        self._existing = bool(use_existing)
        offer_sessions()  # for a server that the runner starts (LocalRunner)

    @contextmanager
    def __call__(self, remote_kwargs: Mapping[str, Any], build_result: Any) -> Iterator[tuple[RPCSession, Module]]:
        package = Path(build_result.filename).read_bytes()
        place = (
            remote_kwargs.get("host") or os.environ["TVM_TRACKER_HOST"],
            remote_kwargs.get("port") or int(os.environ["TVM_TRACKER_PORT"]),
        )
        remote = connect_tracker(*place).request(
            remote_kwargs["device_key"],
            priority=remote_kwargs.get("priority", 1),
            session_timeout=remote_kwargs.get("timeout", 60),
            max_retry=1,
            session_constructor_args=[
                CREATE_SESSION, package, self._template, self._options, self._folder, self._existing
            ],
        )  # fmt: skip
        yield remote, remote.system_lib()


autotvm_module_loader = AutoTvmModuleLoader

__all__ = [
    "AutoTvmModuleLoader", "CrtNotFoundError", "MicroTVMTemplateProject", "MicroTVMTemplateProjectNotFoundError",
    "autotvm_build_func", "autotvm_module_loader", "get_microtvm_template_projects", "get_standalone_crt_dir",
]  # fmt: skip
