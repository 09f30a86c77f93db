"""Measurements of packages by projects, on boards behind a tracker."""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tilewright.meta_schedule.runner.config import EvaluatorConfig, RPCConfig
from tilewright.meta_schedule.runner.rpc_runner import RPCRunner
from tilewright.micro.offers import CREATE_SESSION, offer_sessions
from tilewright.micro.project import TemplateProject
from tilewright.micro.standalone import get_microtvm_template_projects
from tilewright.rpc import RPCSession, Server, Tracker, connect_tracker
from tilewright.runtime import Device, Module

logger = logging.getLogger(__name__)


class _Board:
    """A board of a tracker, with which a session begins when it is known what runs there."""

    def __init__(self, config: RPCConfig, template: str, options: str) -> None:
        self.config, self.template, self.options = config, template, options
        self.session: RPCSession | None = None

    def load(self, package: bytes) -> Module:
        """The functions of a package; a server makes, builds and flashes a project of it."""
        config = self.config
        tracker = connect_tracker(str(config.tracker_host), int(config.tracker_port or 0))
        self.session = tracker.request(
            str(config.tracker_key),
            priority=config.session_priority,
            session_timeout=int(config.session_timeout_sec),
            max_retry=1,
            session_constructor_args=[CREATE_SESSION, package, self.template, self.options, "", False],
        )
        return self.session.system_lib()

    def device(self, name: str, number: int = 0) -> Device:
        """The board's processor."""
        assert self.session is not None
        return self.session.device(name, number)


def _create(template: str, options: str, config: RPCConfig) -> Any:
    return _Board(config, template, options)


def _upload(board: Any, local_path: str, _remote_path: str) -> Module:
    found: Module = board.load(Path(local_path).read_bytes())
    return found


def _template(platform: str) -> str:
    return platform if Path(platform).is_dir() else get_microtvm_template_projects(platform)


def _own_options(platform: str, serial_numbers: Sequence[str] | None) -> list[dict[str, str]]:
    """The options of each server's projects: which board is its own. Emulated boards, and processes, have none."""
    if not serial_numbers:
        return [{}]
    if len(set(serial_numbers)) != len(serial_numbers):
        raise ValueError(f"serial_numbers names a board twice: {', '.join(serial_numbers)}")
    template = TemplateProject.from_directory(_template(platform))
    try:
        known = {option.name for option in template.info().project_options}
    finally:
        template.close()
    name = next((name for name in ("serial_number", "serial_port") if name in known), None)
    return [{name: number} if name is not None else {} for number in serial_numbers]


def _cleanup(_board: Any, _remote_path: str) -> None:
    """Nothing stays: the project goes with its session."""


class RPCRunnerMicro(RPCRunner, kind="rpc_micro"):
    """Measures packages of `get_local_builder_micro` on boards.

    platform: the template of the projects ("crt", "qemu", ...), or its folder. project_options: of it. rpc_configs: where the boards are;
    one tracker. evaluator_config: as of `RPCRunner`. max_workers: boards at once; None: all that the tracker has. initializer: what each
    process that speaks to a board does first.
    """

    def __init__(
        self,
        platform: str = "crt",
        project_options: Mapping[str, Any] | None = None,
        rpc_configs: Sequence[RPCConfig] | RPCConfig | None = None,
        evaluator_config: EvaluatorConfig | None = None,
        max_workers: int | None = None,
        initializer: Callable[[], None] | None = None,
    ) -> None:
        if rpc_configs is not None and not isinstance(rpc_configs, RPCConfig) and not rpc_configs:
            raise ValueError("rpc_configs is empty; give one place of boards, or None")
        configs = [rpc_configs] if isinstance(rpc_configs, RPCConfig) or rpc_configs is None else list(rpc_configs)
        if len({(c.tracker_host, c.tracker_port, c.tracker_key) for c in configs if c is not None}) > 1:
            raise ValueError("the boards of a runner are behind one tracker, with one key")
        template = _template(platform)
        super().__init__(
            configs[0],
            evaluator_config,
            f_create_session=partial(_create, template, json.dumps(dict(project_options or {}))),
            f_upload_module=_upload,
            f_cleanup=_cleanup,
            max_workers=max_workers,
            initializer=initializer,
        )


@contextlib.contextmanager
def get_rpc_runner_micro(
    platform: str,
    options: Mapping[str, Any] | None = None,
    evaluator_config: EvaluatorConfig | None = None,
    tracker_host: str | None = None,
    tracker_port: int | None = None,
    session_timeout_sec: int = 300,
    rpc_timeout_sec: int = 10,
    serial_numbers: Sequence[str] | None = None,
) -> Iterator[RPCRunnerMicro]:
    """A runner with servers of its own on this machine: `with get_rpc_runner_micro("qemu", {"board": "mps2_an500"}) as runner`.

    tracker_host, tracker_port: a tracker that runs; default: one is started. session_timeout_sec: of a measurement, with its build.
    rpc_timeout_sec: that the tracker has to answer. serial_numbers: of boards that are connected; a server for each, whose
    projects have it as their option serial_number, or serial_port, if the template has one of them; default: one server. Raises
    ValueError where a board is named twice.
    """
    key, evaluation = secrets.token_hex(5), evaluator_config or EvaluatorConfig(1, 1, 0, False)
    with contextlib.ExitStack() as exits:
        if tracker_host is None or tracker_port is None:
            tracker = Tracker("127.0.0.1", 0, silent=True)
            exits.callback(tracker.terminate)
            tracker_host, tracker_port = "127.0.0.1", tracker.port
        place = (tracker_host, tracker_port)
        own = _own_options(platform, serial_numbers)
        for options_here in own:
            offer = partial(offer_sessions, options_here)
            server = Server("127.0.0.1", 0, key=key, tracker_addr=place, silent=True, server_init_callback=offer)
            exits.callback(server.terminate)
        connect_tracker(*place, up_in=rpc_timeout_sec).close()
        config = RPCConfig(tracker_host, tracker_port, key, session_priority=1, session_timeout_sec=session_timeout_sec)
        runner = RPCRunnerMicro(platform, options, config, evaluation, max_workers=len(own))
        exits.callback(runner.close)
        yield runner


__all__ = ["RPCRunnerMicro", "get_rpc_runner_micro"]
