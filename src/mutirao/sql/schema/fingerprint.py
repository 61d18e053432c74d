"""What made the tables of a database: a digest of the files of its revisions.

It stands beside the revision, where migrating has written it. So a database tells apart two states
of a revision of one name, as there were of 0100 before the first release.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mutirao.sql.dialects.base import Dialect

FINGERPRINT = "fingerprint"  # the column; databases of revision 0100 have none
_VERSIONS = Path(__file__).parents[1] / "migrations" / "versions"


def fingerprint(database: Dialect) -> str:
    """Return what this package's files give for a database. Ends of lines do not count."""
    return _fingerprint(database.name)


@cache
def _fingerprint(directory: str) -> str:
    files = sorted(
        (each.relative_to(_VERSIONS).as_posix(), each)
        for each in _VERSIONS.glob(f"r*/{directory}/*.sql")
    )
    digest = sha256()
    for name, file in files:
        digest.update(f"{name}\n{file.read_text(encoding='utf-8')}\n".encode())
    return digest.hexdigest()[:16]
