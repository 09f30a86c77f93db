"""What measures the candidates of `tilewright tune`."""

from __future__ import annotations

from pathlib import Path

from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tuning.measure import Runner
from tilewright.tuning.running.local import LocalRunner


def runner_for(
    target: Target,
    threads: int | None,
    tracker: tuple[str, int] | None,
    key: str,
    key_file: Path | None,
    ray: str | None,
) -> Runner:
    """This machine, boards, or a cluster. Raises TVMError where this machine cannot run code for the target, or the others
    are not there."""
    if tracker is not None and ray is not None:
        raise TVMError("--tracker and --ray exclude each other; give one")
    if tracker is None and (key or key_file is not None):
        raise TVMError(
            f"{'--key' if key else '--key-file'} is of the boards of a tracker; give --tracker HOST:PORT, too"
        )
    if tracker is not None:
        if not key:
            raise TVMError("--tracker needs --key, the key of the boards (`tilewright rpc status` lists them)")
        from tilewright.tuning.running.rpc import RPCRunner

        return RPCRunner(key, tracker, key_file=key_file)
    if ray is not None:
        from tilewright.tuning.running.ray import RayRunner

        return RayRunner(ray, threads=threads)
    if not target.is_native:
        raise TVMError(
            f"tune measures on this machine, but --target {target} is for another; give --tracker HOST:PORT and --key of a board"
        )
    return LocalRunner(threads=threads)
