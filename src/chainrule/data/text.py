"""Texts to learn from: a file, or the reference manual that comes with Python."""

from __future__ import annotations

from pathlib import Path

from chainrule.data.files import content_of, unfit
from chainrule.errors import DataError, explain


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file, as it is but for a byte order mark at its start.

    **Raises** DataError for a file that is empty or no text: not UTF-8, or with a zero byte in it; FileError for one that
    cannot be read.
    """
    content = content_of("read_text", path)
    if not content:
        raise unfit("read_text", path, "the file is empty")
    if b"\0" in content:
        fault = f"binary, or not UTF-8: a zero byte at {content.index(0)}"
        raise unfit("read_text", path, fault, expected="a text file in UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise unfit("read_text", path, f"byte {error.start} is not UTF-8", expected="a text file in UTF-8") from None
    if not text:
        raise unfit("read_text", path, "the file is empty but for a byte order mark")
    return text


def default_text() -> str:
    """Python's reference manual: the topics of `help()`, sorted by name; some 450,000 characters, as this Python has them.

    **Raises** DataError where the standard library came without it.

    >>> len(default_text()) > 100_000
    True
    """
    try:
        from pydoc_data.topics import topics
    except ImportError:
        fault = "this Python came without the module pydoc_data"
        raise DataError(explain("default_text", fault, remedy="a text file of your own")) from None
    return "\n".join(topics[name] for name in sorted(topics))
