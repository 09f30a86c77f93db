"""What measures the candidates of `tilewright tune`."""

from __future__ import annotations

from pathlib import Path

from tilewright.support.errors import TVMError, said
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

        check_boards(tracker, key, key_file)
        return RPCRunner(key, tracker, key_file=key_file)
    if ray is not None:
        from tilewright.tuning.running.ray import RayRunner

        return RayRunner(ray, threads=threads)
    if not target.is_native:
        raise TVMError(
            f"tune measures on this machine, but --target {target} is for another; give --tracker HOST:PORT and --key of a board"
        )
    return LocalRunner(threads=threads)


def check_boards(tracker: tuple[str, int], key: str, key_file: Path | None) -> None:
    """Raises TVMError if there is no tracker at an address, or it knows no board with a key: before kernels are compiled, not after."""
    from tilewright.rpc import connect_tracker
    from tilewright.support.errors import RPCError

    address = f"{tracker[0]}:{tracker[1]}"
    try:
        session = connect_tracker(*tracker, key_file=key_file, up_in=0)
        summary = session.summary()
        session.close()
    except (RPCError, OSError) as error:
        raise TVMError(
            f"--tracker {address}: {said(error)}; `tilewright rpc tracker` starts a tracker, and `tilewright rpc server --tracker {address}"
            f" --key {key}` makes a machine one of its boards"
        ) from error
    keys = sorted({str(s["key"]).removeprefix("server:") for s in summary["server_info"]})
    if key not in keys:
        raise TVMError(
            f"--key {key}: no board at the tracker {address} has this key; its keys are {', '.join(keys) or 'none'}"
        )
