"""Parameters as files for web pages: shards of at most so many bytes, and a list of them, "ndarray-cache.json", under their classic names.

`dump_ndarray_cache(params, "folder")` writes them, `load_ndarray_cache("folder", dev)` reads them. float32 may be kept as bfloat16, in half
of the bytes ("f32-to-bf16").
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.deploy.machines import machine_of
from tilewright.deploy.native_build import build_runtime
from tilewright.runtime import Device, NDArray, array
from tilewright.support.errors import TVMError

LIST, SHORT_LIST = "ndarray-cache.json", "ndarray-cache-b16.json"
"""The lists of shards; the second has bfloat16 as a type of its arrays, for readers that know it."""
SHORTENED = "f32-to-bf16"


class NDArrayCacheShardingManager:
    """Collects arrays, and writes them into files `prefix`_0.bin, `prefix`_1.bin, ... of at most shard_cap_nbytes bytes each; a larger
    array has a file of its own. initial_shard_records: those of files that exist, whose arrays may be replaced.

    Files are written under temporary names, and take their places in `finish`; what was there stays until then, and after `discard`."""

    def __init__(
        self,
        cache_dir: str | os.PathLike[str],
        prefix: str,
        shard_cap_nbytes: int,
        initial_shard_records: Iterable[Mapping[str, Any]] | None = None,
    ) -> None:
        self.cache_dir, self.prefix, self.shard_cap_nbytes = Path(cache_dir), prefix, shard_cap_nbytes
        self.shard_records: list[dict[str, Any]] = [dict(r) for r in initial_shard_records or ()]
        self._known = {
            record["name"]: (k, record) for k, shard in enumerate(self.shard_records) for record in shard["records"]
        }
        self._pending: list[dict[str, Any]] = []
        self._data: list[bytes] = []
        self._changed: set[int] = set()
        self._written: dict[str, Path] = {}
        """The temporary files by the names that they will have."""

    @property
    def pending_nbytes(self) -> int:
        """The bytes that are not written yet."""
        return sum([len(d) for d in self._data])

    def append_or_update(
        self,
        data: bytes,
        name: str,
        shape: Iterable[int],
        dtype: str,
        encode_format: str,
        allow_update: bool = False,
    ) -> None:
        """Adds an array by its bytes. Raises ValueError for a name that is there, unless `allow_update`, and for another size then."""
        record = {"name": name, "shape": list(shape), "dtype": dtype, "format": encode_format, "nbytes": len(data)}
        if name in self._known or any([r["name"] == name for r in self._pending]):
            if not allow_update or name not in self._known:
                raise ValueError(f"an array {name} is there already; pass allow_update=True to replace one of a file")
            self.update_single_record(record, data)
            return
        if self._data and self.pending_nbytes + len(data) > self.shard_cap_nbytes:
            self.commit()
        record["byteOffset"] = self.pending_nbytes
        self._pending.append(record)
        self._data.append(data)

    def update_single_record(self, rec: Mapping[str, Any], data: bytes) -> None:
        """Replaces the bytes of an array in a copy of its file."""
        shard, old = self._known[rec["name"]]
        if old["nbytes"] != len(data):
            raise ValueError(f"array {rec['name']} has {old['nbytes']} bytes in its file, and cannot have {len(data)}")
        old.update(rec)
        path = self.shard_records[shard]["dataPath"]
        with self._writing():
            if path not in self._written:
                shutil.copyfile(self.cache_dir / path, self._temporary(path))
            with self._temporary(path).open("r+b") as file:
                file.seek(old["byteOffset"])
                file.write(data)
        self._changed.add(shard)

    def commit(self) -> None:
        """Writes what is pending into a file."""
        whole = b"".join(self._data)
        path = f"{self.prefix}_{len(self.shard_records)}.bin"
        with self._writing():
            self._temporary(path).write_bytes(whole)
        facts = {
            "dataPath": path,
            "format": "raw-shard",
            "nbytes": len(whole),
            "records": self._pending,
            "md5sum": _digest(whole),
        }
        self._known |= {r["name"]: (len(self.shard_records), r) for r in self._pending}
        self.shard_records.append(facts)
        self._pending, self._data = [], []

    def finish(self) -> list[dict[str, Any]]:
        """Writes what is left, and gives all files their names. Returns the records of all files."""
        return self._finish_with({})

    def _finish_with(self, lists: Mapping[str, Callable[[list[dict[str, Any]]], bytes]]) -> list[dict[str, Any]]:
        """`finish`, with further files of what is made of the records."""
        if self._pending:
            self.commit()
        for shard in self._changed:
            record = self.shard_records[shard]
            record["md5sum"] = _digest(self._temporary(record["dataPath"]).read_bytes())
        with self._writing():
            for name, made_of in lists.items():
                self._temporary(name).write_bytes(made_of(self.shard_records))
            for name, temporary in self._written.items():
                os.replace(temporary, self.cache_dir / name)
        self._written, self._changed = {}, set()
        return self.shard_records

    def discard(self) -> None:
        """Removes the files that have not got their names yet."""
        for temporary in self._written.values():
            temporary.unlink(missing_ok=True)
        self._written = {}

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TVMError(f"arrays cannot be written into {self.cache_dir}: {error}") from error

    def _temporary(self, name: str) -> Path:
        return self._written.setdefault(name, self.cache_dir / f".{name}.{os.getpid()}.{get_ident()}")


def _digest(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _encoded(value: Any, encode_format: str) -> tuple[np.ndarray, str]:
    found = value.numpy() if isinstance(value, NDArray) else np.asarray(value)
    shortened = encode_format == SHORTENED and found.dtype == np.float32
    return (found.astype(ml_dtypes.bfloat16), SHORTENED) if shortened else (found, "raw")


def dump_ndarray_cache(
    params: Mapping[str, Any] | Iterable[tuple[str, Any]],
    cache_dir: str | os.PathLike[str],
    encode_format: str = SHORTENED,
    meta_data: Mapping[str, Any] | None = None,
    shard_cap_mb: int = 32,
    show_progress: bool = True,
    update_if_exists: bool = False,
) -> None:
    """Writes arrays and `meta_data` into a folder. encode_format: "f32-to-bf16" or "raw". update_if_exists: arrays of a folder that is
    there are replaced, and others stay. Raises ValueError for other formats, for a name that comes twice, and for a size that differs from
    that of the array to be replaced; the folder is then as it was."""
    if encode_format not in (SHORTENED, "raw"):
        raise ValueError(f'encode_format must be "{SHORTENED}" or "raw", but is {encode_format!r}')
    folder = Path(cache_dir)
    folder.mkdir(parents=True, exist_ok=True)
    known = folder / LIST
    before = json.loads(known.read_text()) if update_if_exists and known.exists() else {"metadata": {}, "records": []}
    shards = NDArrayCacheShardingManager(folder, "params_shard", shard_cap_mb * 2**20, before["records"])
    about = {**before["metadata"], **(meta_data or {})}

    def listed(records: list[dict[str, Any]]) -> bytes:
        return json.dumps({"metadata": about, "records": records}, indent=2).encode()

    def listed_short(records: list[dict[str, Any]]) -> bytes:
        return listed([_as_short(shard) for shard in records])

    pairs: Iterator[Any] = iter(params.items() if isinstance(params, Mapping) else params)
    count = whole = 0
    try:
        for name, value in pairs:
            given = value.dtype if isinstance(value, NDArray) else np.asarray(value).dtype
            data, kind = _encoded(value, encode_format)
            shards.append_or_update(data.tobytes(), name, data.shape, str(given), kind, allow_update=update_if_exists)
            count, whole = count + 1, whole + data.nbytes
            if show_progress:
                print(f"\r{count} arrays, {whole} bytes", end="")
        records = shards._finish_with({LIST: listed, SHORT_LIST: listed_short})
    finally:
        shards.discard()
    if show_progress:
        print(f"\r{count} arrays, {whole} bytes, in {len(records)} files of {folder}")


def _as_short(shard: dict[str, Any]) -> dict[str, Any]:
    """The records of a file whose shortened arrays are bfloat16."""
    return {
        **shard,
        "records": [
            {**r, "dtype": "bfloat16", "format": "raw"} if r["format"] == SHORTENED else r for r in shard["records"]
        ],
    }


def load_ndarray_cache(cachepath: str | os.PathLike[str], device: Device) -> tuple[dict[str, NDArray], dict[str, Any]]:
    """(the arrays by name, on a device, and the metadata) that `dump_ndarray_cache` wrote into a folder, or that a list names. Raises
    TVMError for files that are not what the list says."""
    path = Path(cachepath)
    path = path if path.suffix == ".json" else path / LIST
    listed = json.loads(path.read_text())
    found = {}
    for shard in listed["records"]:
        raw = (path.parent / shard["dataPath"]).read_bytes()
        if len(raw) != shard["nbytes"] or _digest(raw) != shard.get("md5sum", _digest(raw)):
            raise TVMError(f"{shard['dataPath']} is not the file that {path.name} lists: write the arrays again")
        for record in shard["records"]:
            short = record["format"] == SHORTENED
            kind = np.dtype(ml_dtypes.bfloat16 if short or record["dtype"] == "bfloat16" else record["dtype"])
            part = np.frombuffer(raw, kind, math.prod(record["shape"]), record["byteOffset"]).reshape(record["shape"])
            found[record["name"]] = array(part.astype(np.float32) if short else part, device)
    return found, listed["metadata"]


def export_runtime(runtime_dir: str | os.PathLike[str]) -> None:
    """Writes the JavaScript package of the runtime into a folder."""
    build_runtime(machine_of("wasm32"), Path(runtime_dir))
