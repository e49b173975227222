"""The folder of results, filled all at once: files are made in a hidden folder inside it and moved into place at the end.

Moving within one file system replaces a file or leaves it, so whoever looks sees old or new, never half.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

LAST = "measurements.json"
"""The file that is moved last: once it is new, so is everything that it speaks of."""


class Staging:
    """The hidden folder `path`, whose files go into `target` by `publish()` and are dropped by `discard()`.

    `folder` is the one folder inside that holds more files.  **Raises** OSError if either cannot be made or written to.
    """

    def __init__(self, target: Path, folder: str = "figures") -> None:
        self.target = target
        self.is_published = False
        self._made = _missing_folders(target)
        try:
            target.mkdir(parents=True, exist_ok=True)
            if (target / folder).exists() and not (target / folder).is_dir():
                raise NotADirectoryError(f"{folder} is no folder")
            self.path = Path(tempfile.mkdtemp(prefix=".walkthrough-", dir=target))
            self.folder = self.path / folder
            self.folder.mkdir()
        except OSError:
            self._remove_made()
            raise

    def publish(self) -> list[Path]:
        """Move every file into place; give back where they are."""
        files = sorted(path for path in self.path.rglob("*") if path.is_file())
        files.sort(key=lambda path: path.name == LAST)
        places = [self.target / path.relative_to(self.path) for path in files]
        for path, place in zip(files, places, strict=True):
            place.parent.mkdir(exist_ok=True)
            os.replace(path, place)  # noqa: PTH105 - the one call that is atomic everywhere, by its own name
        self.is_published = True
        self.discard()
        return places

    def discard(self) -> None:
        """Remove the hidden folder, and the target if it was made for this run and is empty."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._remove_made()

    def _remove_made(self) -> None:
        for folder in self._made:
            with suppress(OSError):  # not empty, or never made
                folder.rmdir()


def _missing_folders(folder: Path) -> list[Path]:
    """The folders that would have to be made, innermost first."""
    return [part for part in (folder, *folder.parents) if not part.exists()]
