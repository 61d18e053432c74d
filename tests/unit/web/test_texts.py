"""Both languages have all texts, with the same facts in them, and write numbers in their way."""

from __future__ import annotations

import re
import string
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mutirao.model.audit.actions import ActionKind, ActionState
from mutirao.model.filters.qualifiers import QUALIFIERS
from mutirao.model.findings import Level
from mutirao.model.jobs.job import JobState, OutcomeKind
from mutirao.model.limits.limits import LimitOrigin
from mutirao.model.reading.standing import ReasonKind
from mutirao.model.schedules.schedule import ScheduleStatus
from mutirao.web.access import Permission
from mutirao.web.pages import PAGES
from mutirao.web.texts.english import ENGLISH
from mutirao.web.texts.language import LANGUAGES, accepted
from mutirao.web.texts.portuguese import PORTUGUESE

WEB = Path(__file__).parents[3] / "src/mutirao/web"
EN, PT = LANGUAGES["en"], LANGUAGES["pt-BR"]


def facts_in(text: str) -> set[str]:
    """Return the names of the facts that a text has."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_both_languages_have_the_same_texts() -> None:
    """None is missing, none is left over, none is empty."""
    assert ENGLISH.keys() == PORTUGUESE.keys()
    assert all(ENGLISH.values())
    assert all(PORTUGUESE.values())


def test_texts_have_the_same_facts() -> None:
    """What one language tells, the other tells."""
    assert {key for key in ENGLISH if facts_in(ENGLISH[key]) != facts_in(PORTUGUESE[key])} == set()


def test_all_texts_that_are_asked_for_are_there() -> None:
    """In templates and in the code, by a literal."""
    sources = [*WEB.rglob("*.html"), *WEB.rglob("*.py")]
    asked = {
        key for path in sources for key in re.findall(r'\bt\("([a-z_.]+[a-z_])"', path.read_text())
    }
    assert len(asked) > 100
    assert asked - ENGLISH.keys() == set()


def test_all_words_of_the_model_have_texts() -> None:
    """States, outcomes, reasons, qualifiers and the names of pages."""
    states = {*JobState, *OutcomeKind, *Level, *ScheduleStatus, "closed", "open", "half_open"}
    needed = {f"state.{each}" for each in states}
    needed |= {f"why.{each}" for each in ReasonKind} | {f"origin.{each}" for each in LimitOrigin}
    needed |= {f"state.audit_{each}" for each in ActionState} | {
        f"do.{each}" for each in ActionKind
    }
    needed |= {f"qualifier.{each}" for each in QUALIFIERS}
    needed |= {f"nav.{page.name}" for page in PAGES if page.listed}
    needed |= {f"role.{role.name.lower()}" for role in Permission}
    assert needed - ENGLISH.keys() == set()


@pytest.mark.parametrize(
    ("header", "code"),
    [("", "en"), ("pt-BR,pt;q=0.9,en;q=0.8", "pt-BR"), ("pt", "pt-BR"), ("de,en;q=0.5", "en"),
     ("en;q=0.3,pt-PT;q=0.7", "pt-BR"), ("pt;q=0,en", "en"), ("de", "en"), (";q=x,,;;", "en"),
     ("pt;q=nan", "en"), ("x" * 10_000, "en")],
)  # fmt: skip
def test_the_language_is_the_browsers(header: str, code: str) -> None:
    """The first one that there is; English otherwise, whatever is sent."""
    assert accepted(header).code == code


def test_numbers_and_lengths() -> None:
    """Each language has its own marks."""
    assert (EN.number(1_234_567), PT.number(1_234_567)) == ("1,234,567", "1.234.567")
    assert (EN.percent(0.053), PT.percent(0.053)) == ("5.3%", "5,3%")
    lengths = [0.0004, 0.34, 2.44, 59.0, 61, 3_599, 3_600, 36_000, 90_000, 864_000]
    assert [EN.length(each) for each in lengths] == [
        "0 ms", "340 ms", "2.4 s", "59 s", "1 min 1 s", "59 min", "1 h", "10 h", "1 d 1 h", "10 d",
    ]  # fmt: skip


def test_moments() -> None:
    """Ago and ahead; and the text of one where there is one."""
    now = datetime(2026, 11, 27, 12, tzinfo=UTC)
    assert EN.ago(now - timedelta(minutes=3), now) == "3 min ago"
    assert PT.ago(now + timedelta(hours=2), now) == "em 2 h"
    assert EN.ago(now, now) == "just now"
    assert (EN("errors.jobs", n=1), EN("errors.jobs", n=2_000)) == ("one job", "2,000 jobs")
