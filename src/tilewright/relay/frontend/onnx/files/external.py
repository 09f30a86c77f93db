"""Location of external weight files, which must be in the model's folder."""

from __future__ import annotations

from pathlib import Path

from tilewright.support.errors import ModelError


class WeightFolders:
    """The folders of allowed weight files: that of the model file, and, if the model file is a link, that of its target."""

    __slots__ = ("folder", "homes", "names")

    def __init__(self, folder: Path = Path(), file: Path | None = None) -> None:
        self.folder = folder
        self.homes = [folder.resolve()] if file is None else [folder.resolve(), file.resolve().parent]
        self.names = 1 if file is None else file.stat().st_nlink

    def find(self, location: str, tensor: str, title: str) -> Path:
        """The file with a tensor's values. Raises ModelError for paths outside of the folders (also possibly), and for non-files."""
        try:
            path = (self.folder / location).resolve()
            there, files = path.exists(), path.is_file()
        except (OSError, ValueError, RuntimeError):  # circular links, invalid file names
            path, there, files = self.homes[0], False, False
        if not location or path in self.homes or not any([path.is_relative_to(home) for home in self.homes]):
            raise ModelError(
                f"{title}: the tensor {tensor!r} points to the file {short(location)} outside the model's folder, which is not read."
                " Save the model with its data beside it"
            )
        if there and not files:
            raise ModelError(
                f"{title}: the values of {tensor!r} lie in {short(location)}, which is not a file, but a folder or a device."
                " Save the model with its data beside it"
            )
        if not there:
            raise ModelError(
                f"{title}: the values of {tensor!r} lie in {short(location)}, which is not in {self.homes[0]}."
                " Copy that file beside the model, or pass the model's path rather than its ModelProto"
            )
        if path.stat().st_nlink > self.names:
            # Package managers hard-link all files of a package, and so the model, too.
            raise ModelError(
                f"{title}: the values of {tensor!r} lie in {short(location)}, a hard link: the same file has another name, which may lie"
                " outside the model's folder. Put a copy in its place"
            )
        return path


def short(text: str) -> str:
    """A quoted text; a long one is abridged in the middle."""
    return repr(text if len(text) <= 100 else f"{text[:60]}...{text[-30:]}")
