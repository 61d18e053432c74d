"""What `from mutirao import …` gives: each name is loaded when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import mutirao


def test_each_name_is_there() -> None:
    """And it is the one of the same name, whoever asks; `dir` tells all of them."""
    assert {*mutirao.__all__} <= {*dir(mutirao)}
    for name in mutirao.__all__:
        found = getattr(mutirao, name)
        assert getattr(found, "__name__", name) == name
    with pytest.raises(AttributeError, match="no attribute 'Mutirão'"):
        getattr(mutirao, "Mutirão")  # noqa: B009


def test_all_of_them_at_once() -> None:
    """In a process that has asked for none yet."""
    code = "from mutirao import *; import mutirao; print(Mutirao is mutirao.app.Mutirao, chain)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert told.stdout.startswith("True <function chain")
