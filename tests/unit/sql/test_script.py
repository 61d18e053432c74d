"""The SQL of revisions: what several statements share is written once."""

from __future__ import annotations

import pytest

from mutirao.sql.migrations.script import statements_of

FRAGMENTS = """-- Why there is one.
--: now
clock() + 1
--;
--: text of zone
to_text(${of}, '${zone}')
--;
"""


@pytest.mark.parametrize(
    ("use", "becomes"),
    [
        ("SELECT ${now} < ${parked}", "SELECT clock() + 1 < 9999"),
        ("SELECT ${text: at; UTC}", "SELECT to_text(at, 'UTC')"),
        ("SELECT ${text: max(${now}, 2); UTC}", "SELECT to_text(max(clock() + 1, 2), 'UTC')"),
        ("SELECT ${text: at; }", "SELECT to_text(at, '')"),
        ("-- Why.\nSELECT $$a${now}$$\n", "-- Why.\nSELECT $$aclock() + 1$$"),
    ],
)
def test_fragments_are_put_in_place(use: str, becomes: str) -> None:
    """In the same file and in later ones; their own text is no statement."""
    files = [FRAGMENTS + use, f"SELECT 1\n--;\n{use}"]
    assert list(statements_of(files, {"parked": "9999"})) == [becomes, "SELECT 1", becomes]


def test_fragments_may_use_earlier_ones() -> None:
    """With their own parameters, too."""
    files = [f"{FRAGMENTS}--: both of\n${{text: ${{of}}; ${{now}}}}\n--;\nSELECT ${{both: at}}"]
    assert list(statements_of(files, {})) == ["SELECT to_text(at, 'clock() + 1')"]


@pytest.mark.parametrize(
    ("use", "error"),
    [("${then}", KeyError), ("${text: at}", ValueError), ("${now: 1}", ValueError)],
)
def test_mistakes_are_refused(use: str, error: type[Exception]) -> None:
    """An unknown name, and another number of values."""
    with pytest.raises(error):
        list(statements_of([FRAGMENTS + use], {}))
