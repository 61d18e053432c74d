"""Programs of Debian's branch sid that run from where they were extracted.

A program names its loader by an absolute path, and finds its libraries by the machine's list: each
is told its own ones instead, so that whatever starts it needs not know. One that cannot be moved in
memory, as Debian's Python, has no room for that, and a script starts it by its loader. Nothing is
installed, no root is needed, and the machine's own programs stay as they are.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.debian import Extracted, alone, fetched

_ELF, _FIXED = b"\x7fELF", 2  # what a file of programs begins with; its type, if it has one place
_BY_LOADER = """#!/bin/sh
exec {loader} --library-path {libraries} --argv0 "$0" {program} "$@"
"""
_DONE = "linked"  # a file in a root whose programs know their places


@dataclass(frozen=True)
class Root:
    """What of Debian's is extracted into a directory.

    Parameters:
        packages: the first one names the directory.
        programs: patterns of what is run there, or is a script that does so.
        moved: directories of which scripts there say that they stand in `/`.
    """

    packages: Sequence[str]
    programs: Sequence[str]
    moved: Sequence[str] = ()

    def made(self) -> Path:
        """Return the directory, made if it never was; `PackageNotFetched` where it cannot be."""
        extracted = fetched(*self.packages)
        with alone(self.packages[0]):
            done = extracted.root / _DONE
            if not done.exists():
                self._link(extracted)
                done.touch()
        return extracted.root

    def _link(self, extracted: Extracted) -> None:
        patch = fetched("patchelf").command("usr/bin/patchelf")
        [loader] = extracted.root.glob("usr/lib/*/ld-linux-*.so.*")
        for path in self._found(extracted.root):
            head = path.read_bytes()[:17]
            if not head.startswith(_ELF):
                self._move(path, extracted.root)
            elif head[16] == _FIXED:
                _start_by_loader(path, loader)
            elif _says(*patch, "--print-interpreter", path):
                _run(*patch, "--set-interpreter", loader, path)
                _run(*patch, "--force-rpath", "--set-rpath", _libraries(loader), path)

    def _found(self, root: Path) -> Iterator[Path]:
        for pattern in self.programs:
            for path in sorted(root.glob(pattern)):
                if path.is_file() and not path.is_symlink():
                    yield path

    def _move(self, script: Path, root: Path) -> None:
        try:
            text = script.read_text()
        except UnicodeDecodeError:
            return  # neither a program nor a script
        for place in self.moved:
            text = text.replace(f"{root}{place}", place).replace(place, f"{root}{place}")
        script.write_text(text)


def _start_by_loader(path: Path, loader: Path) -> None:
    program = path.rename(path.with_name(f"{path.name}.program"))
    path.write_text(_BY_LOADER.format(loader=loader, libraries=_libraries(loader), program=program))
    path.chmod(0o755)


def _libraries(loader: Path) -> str:
    here = loader.parent
    return ":".join(str(path) for path in (here, here / "systemd"))


def _says(*command: str | Path) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)


POSTGRESQL = Root(["postgresql-18"], ["usr/lib/postgresql/*/bin/*"])
MARIADB = Root(
    ["mariadb-server-core", "mariadb-client-core"], ["usr/sbin/*", "usr/bin/*"], ["/usr/share"]
)
RABBITMQ = Root(
    ["rabbitmq-server"],
    ["usr/lib/erlang/bin/*", "usr/lib/erlang/erts-*/bin/*", "usr/lib/erlang/lib/*/priv/bin/*"],
    ["/usr/lib/erlang"],
)


def python(version: str) -> Root:
    """Return a Python, with what makes environments and builds packages for it."""
    name = f"python{version}"
    return Root([name, f"{name}-venv", f"{name}-dev"], [f"usr/bin/{name}"])
