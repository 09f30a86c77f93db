"""What a tracker has: `python -m tilewright.exec.query_rpc_tracker --host 127.0.0.1 --port 9190`. The variables TVM_TRACKER_HOST and
TVM_TRACKER_PORT are the defaults."""

from __future__ import annotations

import argparse
import os
import sys

from tilewright.rpc.client import connect_tracker
from tilewright.support.errors import TVMError


def main(argv: list[str] | None = None, prog: str = "python -m tilewright.exec.query_rpc_tracker") -> int:
    """Print the servers and the queues."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Show the servers of a tracker: for each key how many there are, how many are free, and how many clients wait.",
    )
    parser.add_argument(
        "--host",
        default=os.environ.get("TVM_TRACKER_HOST", "127.0.0.1"),
        help="the tracker's host (default: TVM_TRACKER_HOST, or 127.0.0.1)",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=os.environ.get("TVM_TRACKER_PORT", "9190"),
        help="the tracker's port (default: TVM_TRACKER_PORT, or 9190)",
    )
    parser.add_argument("--key-file", metavar="FILE", help="a file with the tracker's secret")
    parser.add_argument("--tls-ca", metavar="FILE", help="a file of certificates; the tracker must have one of them")
    options = parser.parse_args(argv)
    try:
        tracker = connect_tracker(options.host, options.port, options.key_file, options.tls_ca, up_in=0)
        print(f"Tracker address {options.host}:{options.port}\n\n{tracker.text_summary()}")
    except TVMError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
