"""Files that end in a checksum of all that stands before, so that damage is found before the system's loader runs their code.

What follows the last section of a library, or the end of an archive, is read by nobody. Tools that write a library anew
(strip, patchelf) leave the seal out, and a file without one is loaded as it is. The runtime looks at seals (`native/src/seal.cc`).
"""

from __future__ import annotations

import os
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor

from tilewright.support.errors import TVMError

MAGIC = b"TWSEAL1\n"
PIECE = 1 << 24
_FORM = struct.Struct("<QQ8s")


def seal(path: str | os.PathLike[str]) -> None:
    """Append the checksum of a file to it. Raises TVMError where it cannot be written."""
    try:
        with open(path, "rb+") as file:
            data = file.read()
            file.write(_FORM.pack(len(data), _sum(memoryview(data)), MAGIC))
    except OSError as error:
        raise TVMError(f"{os.fspath(path)} cannot be written: {error.strerror or error}") from error


def _sum(data: memoryview) -> int:
    """A checksum of pieces, which two threads read."""
    pieces = [data[at : at + PIECE] for at in range(0, len(data), PIECE)]
    if len(pieces) == 1:
        return zlib.crc32(pieces[0])
    with ThreadPoolExecutor(2) as pool:
        sums = list(pool.map(zlib.crc32, pieces))
    for piece in pieces:
        piece.release()
    return zlib.crc32(struct.pack(f"<{len(sums)}I", *sums))
