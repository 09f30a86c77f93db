"""Files from the network that scripts need, fetched once: `download`, and `download_testdata` into a folder of the user."""

from __future__ import annotations

import logging
import os
import time
import urllib.error
import urllib.request
from pathlib import Path

from tilewright.support.errors import TVMError
from tilewright.support.files import write_whole

LOG = logging.getLogger("download")
TEST_DATA_ROOT_PATH = Path(os.environ.get("TEST_DATA_ROOT_PATH") or os.path.expanduser("~/.tvm_test_data"))
"""The folder of `download_testdata`."""
SILENCE = 60.0
"""Seconds without a byte after which a try has failed."""


def download(
    url: str, path: str | os.PathLike[str], overwrite: bool = False, size_compare: bool = False, retries: int = 3
) -> None:
    """Fetches a file, unless it is there. overwrite: even so; size_compare: if it has another size than the file there. Raises TVMError
    when `retries` tries failed; what was there before stays."""
    place = Path(path)
    if place.is_file() and not overwrite and not (size_compare and _size(url) != place.stat().st_size):
        LOG.info("the file %s is there already", place)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    failed: Exception | None = None
    for attempt in range(max(retries, 1)):
        if attempt:
            time.sleep(min(2.0**attempt, 8.0))
        try:
            with urllib.request.urlopen(url, timeout=SILENCE) as answer:
                write_whole(place, answer.read())
            return
        except (urllib.error.HTTPError, ValueError) as error:
            failed = error  # which another try would meet again
            break
        except OSError as error:
            failed = error
            LOG.warning("%s was not fetched: %s", url, error)
    raise TVMError(
        f"{url} was not fetched: {failed}. Check the address and the network, or put the file at {place} yourself"
    ) from failed


def _size(url: str) -> int | None:
    """Bytes of a file, as its server says; None where it does not."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=SILENCE) as answer:
            said = answer.headers.get("Content-Length")
    except (OSError, ValueError):
        return None
    return int(said) if said is not None and said.isdecimal() else None


def download_testdata(
    url: str, relpath: str, module: str | list[str] | tuple[str, ...] | None = None, overwrite: bool = False
) -> str:
    """Fetches a file into `TEST_DATA_ROOT_PATH`, below the folders `module`, unless it is there; returns its path."""
    folders = [] if module is None else [module] if isinstance(module, str) else list(module)
    place = Path(TEST_DATA_ROOT_PATH, *folders, relpath)
    download(url, place, overwrite)
    return os.path.abspath(place)
