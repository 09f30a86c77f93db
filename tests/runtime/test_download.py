"""contrib.download: files are fetched once; what fails says so and leaves what was there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.contrib import download as room
from tilewright.contrib.download import download, download_testdata
from tilewright.support.errors import TVMError


def test_files_are_fetched_once(tmp_path: Path) -> None:
    source, place = tmp_path / "there", tmp_path / "new" / "here"
    source.write_bytes(b"one")
    download(source.as_uri(), place)
    source.write_bytes(b"three")
    download(source.as_uri(), place)
    assert place.read_bytes() == b"one"
    download(source.as_uri(), place, size_compare=True)
    assert place.read_bytes() == b"three"
    source.write_bytes(b"fours")
    download(source.as_uri(), place, size_compare=True)
    assert place.read_bytes() == b"three"
    download(source.as_uri(), place, overwrite=True)
    assert place.read_bytes() == b"fours"


def test_data_of_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "TEST_DATA_ROOT_PATH", tmp_path / "data")
    (tmp_path / "cat.png").write_bytes(b"cat")
    path = download_testdata((tmp_path / "cat.png").as_uri(), "cat.png", module=["data", "pictures"])
    assert path == str(tmp_path / "data" / "data" / "pictures" / "cat.png") and Path(path).read_bytes() == b"cat"
    assert download_testdata("http://127.0.0.1:1/cat.png", "cat.png", module=("data", "pictures")) == path


def test_what_fails(tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(b"old")
    for url in ("http://127.0.0.1:1/x", (tmp_path / "none").as_uri(), "no address"):
        with pytest.raises(TVMError, match="was not fetched: .* put the file at .*here yourself"):
            download(url, tmp_path / "here", overwrite=True, retries=1)
        assert (tmp_path / "here").read_bytes() == b"old"
