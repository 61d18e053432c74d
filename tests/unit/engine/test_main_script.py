"""Which main scripts a child process may run to find a task in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutirao.engine.calls.main_script import MAIN, Main
from mutirao.errors import ConfigurationError

WORK = (MAIN, "work")
FITTING = [
    'if __name__ == "__main__":\n    start()\n',
    "if '__main__' == __name__ and wanted:\n    start()\n",
    'if __name__ != "__main__":\n    raise SystemExit\nstart()\n',
    '__name__ == "__main__" and start()\n',
]
UNFIT = [
    "start()\n",
    '# if __name__ == "__main__":\nstart()\n',
    'print(__name__)\nname = "__main__"\n',
    'if name == "__main__":\n    start()\n',
    "if :",
    "\x00",
]


@pytest.mark.parametrize("source", FITTING)
def test_a_guard(tmp_path: Path, source: str) -> None:
    """In each spelling it does."""
    (tmp_path / "script.py").write_text(source)
    Main(path=str(tmp_path / "script.py")).check_for([WORK])


@pytest.mark.parametrize("source", UNFIT)
def test_no_guard(tmp_path: Path, source: str) -> None:
    """What only looks like one does not, nor what is no Python."""
    (tmp_path / "script.py").write_text(source)
    main = Main(path=str(tmp_path / "script.py"))
    with pytest.raises(ConfigurationError, match=r"once more; put what that starts under"):
        main.check_for([WORK])
    main.check_for([("shop", "work")])


@pytest.mark.parametrize(
    ("main", "found"),
    [
        (Main(), "what was typed in"),
        (Main("shop.__main__", "/srv/shop/__main__.py"), "/srv/shop/__main__.py"),
        (Main("__main__", "/srv/shop.pyz/__main__.py"), "/srv/shop.pyz/__main__.py"),
    ],
)
def test_what_is_no_module(main: Main, found: str) -> None:
    """Cannot be imported by a child; the error says so."""
    with pytest.raises(ConfigurationError, match=f"cannot import {found} as a module; put it into"):
        main.check_for([WORK])
    main.enter_for([("shop", "work")])
