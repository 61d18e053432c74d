"""The files of revisions: never edited once they are committed, as databases have run them."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from mutirao.sql import migrations

VERSIONS = Path(migrations.__file__).parent / "versions"
COMMITTED = Path(__file__).with_name("committed.sha256")


def test_committed_files_are_as_they_were() -> None:
    """Each has the digest that it had when it was committed; a new one gets its line then."""
    committed = dict(line.split("  ")[::-1] for line in COMMITTED.read_text().splitlines())
    assert _digests() == committed, (
        "What changes goes into a new revision. For new files: python -m " + __name__
    )


def _digests() -> dict[str, str]:
    found = [each for kind in ("*.py", "r*/*/*.sql") for each in VERSIONS.glob(kind)]
    return {each.relative_to(VERSIONS).as_posix(): _digest(each) for each in sorted(found)}


def _digest(path: Path) -> str:
    return sha256(path.read_text(encoding="utf-8").encode()).hexdigest()


def write_new() -> None:
    """Write the lines of files that have none, and leave all others."""
    lines = COMMITTED.read_text().splitlines() if COMMITTED.exists() else []
    known = {line.split("  ")[1] for line in lines}
    new = [f"{digest}  {name}" for name, digest in _digests().items() if name not in known]
    COMMITTED.write_text("".join(f"{line}\n" for line in [*lines, *new]))


if __name__ == "__main__":
    write_new()
