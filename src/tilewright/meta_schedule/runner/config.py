"""How libraries are measured, and where."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from tilewright.rpc import RPCSession, TrackerSession, connect_tracker
from tilewright.tuning.running.measuring import Plan

FLUSHED = 64 << 20
"""Bytes that are written to empty caches."""


class EvaluatorConfig(NamedTuple):
    """How often a library is run.

    repeat: repeats that are not disturbed. min_repeat_ms: milliseconds of a repeat, at least; the number of calls follows from
    it. number: has no effect. enable_cpu_cache_flush: caches are emptied before each repeat.
    """

    number: int = 3
    repeat: int = 1
    min_repeat_ms: int = 100
    enable_cpu_cache_flush: bool = False

    @staticmethod
    def _normalized(config: EvaluatorConfig | None) -> EvaluatorConfig:
        return EvaluatorConfig() if config is None else EvaluatorConfig(*config)

    def plan(self, timeout: float) -> Plan:
        """As the engine's runners take it. timeout: seconds of a candidate, half of which its repeats may take."""
        flushed = FLUSHED if self.enable_cpu_cache_flush else 0
        return Plan(self.repeat, float(self.min_repeat_ms), seconds=timeout / 2, cache_flush_bytes=flushed)


class RPCConfig(NamedTuple):
    """Where boards are: the tracker and the key of their servers. What is None is taken from the variables TVM_TRACKER_HOST,
    TVM_TRACKER_PORT and TVM_TRACKER_KEY. session_timeout_sec: of a measurement."""

    tracker_host: str | None = None
    tracker_port: None | int | str = None
    tracker_key: str | None = None
    session_priority: int = 1
    session_timeout_sec: int = 10

    @staticmethod
    def _normalized(config: RPCConfig | None) -> RPCConfig:
        """With all fields. Raises ValueError for one that is given nowhere."""
        given = RPCConfig() if config is None else config
        names = {
            "tracker_host": "TVM_TRACKER_HOST",
            "tracker_port": "TVM_TRACKER_PORT",
            "tracker_key": "TVM_TRACKER_KEY",
        }
        found: dict[str, Any] = {}
        for field, variable in names.items():
            value = getattr(given, field)
            value = os.environ.get(variable) if value is None else value
            if value is None:
                raise ValueError(
                    f"{field} of the RPCConfig is not given, and there is no environment variable {variable}"
                )
            found[field] = int(value) if field == "tracker_port" else value
        return given._replace(**found)

    def connect_tracker(self) -> TrackerSession:
        """A connection to the tracker. Raises RPCError."""
        config = RPCConfig._normalized(self)
        return connect_tracker(str(config.tracker_host), int(config.tracker_port or 0))

    def connect_server(self) -> RPCSession:
        """A session with a free board. Raises RPCError."""
        config = RPCConfig._normalized(self)
        tracker = self.connect_tracker()
        return tracker.request(str(config.tracker_key), config.session_priority, config.session_timeout_sec)

    def count_num_servers(self, allow_missing: bool = True) -> int:
        """The number of boards with the key. Raises RuntimeError if there are none and allow_missing is False."""
        config = RPCConfig._normalized(self)
        servers = self.connect_tracker().summary()["server_info"]
        count = sum([str(s["key"]).removeprefix("server:") == config.tracker_key for s in servers])
        if not count and not allow_missing:
            raise RuntimeError(
                f"the tracker {config.tracker_host}:{config.tracker_port} has no server with the key {config.tracker_key!r}"
            )
        return count
