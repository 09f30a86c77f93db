"""Files are written whole and together, or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tilewright.support.errors import TVMError
from tilewright.support.files import kept_folder, write_together, write_whole


def test_all_of_several_files_or_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "folder").mkdir()
    with pytest.raises(TVMError, match=r"folder/c/x cannot be written: No such file or directory"):
        write_together({tmp_path / "a": b"new", tmp_path / "folder" / "c" / "x": b"x"})
    assert (tmp_path / "a").read_bytes() == b"old" and sorted(os.listdir(tmp_path)) == ["a", "folder"]
    write_together({tmp_path / "a": b"new", tmp_path / "folder" / "b": b"b"}, [tmp_path / "folder" / "b"])
    assert (tmp_path / "a").read_bytes() == b"new" and (tmp_path / "a").stat().st_mode & 0o111 == 0
    assert (tmp_path / "folder" / "b").stat().st_mode & 0o777 == 0o755
    assert os.listdir(tmp_path / "folder") == ["b"]


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(TVMError, match=r"file/x cannot be written: Not a directory"):
        write_whole(tmp_path / "file" / "x", b"x")


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    write_whole("/dev/null", b"x")
    with pytest.raises(TVMError, match="cannot be written: Is a directory"):
        write_whole(tmp_path, b"x")
    assert Path("/dev/null").is_char_device() and os.listdir(tmp_path) == []


def test_folders_of_killed_processes_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    names = [f"test-{ended.pid}-left", f"test-{os.getpid()}-mine", f"test-{os.getpid()}-older", "test-word-other"]
    left, mine, older, other = [tmp_path / name for name in names]
    for folder in (left, mine, older, other):
        folder.mkdir()
        (folder / "library.so").touch()
    # Of a process that had this one's number before.
    os.utime(older, (1e9, 1e9))
    kept = kept_folder("test-")
    assert not left.exists() and not older.exists() and mine.exists() and other.exists()
    assert Path(kept.name).name.startswith(f"test-{os.getpid()}-")
    kept.cleanup()
    assert not Path(kept.name).exists()


def test_a_process_that_ends_at_once_removes_its_folders(tmp_path: Path) -> None:
    """The signal comes while a module is loaded."""
    (tmp_path / "slow_module.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(60)\n"
    )
    (tmp_path / "program.py").write_text(
        "import os, sys\n"
        "from tilewright.support.files import kept_folder\n"
        "def main():\n"
        "    kept = kept_folder('tilewright-tune-')\n"
        "    open(os.path.join(kept.name, 'library.so'), 'w').close()\n"
        "    import slow_module\n"
    )
    place = tmp_path / "temporary"
    other = place / "tilewright-tune-1-other"
    other.mkdir(parents=True)
    environment = {**os.environ, "TMPDIR": str(place), "PYTHONPATH": str(tmp_path)}
    code = "from tilewright.__main__ import start; start('program')"
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=False, timeout=60)
    assert done.returncode == 143 and list(place.iterdir()) == [other]
