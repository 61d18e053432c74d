"""Translates the reasons why a job is not running.

The kinds and their facts come from the model, which has the sentences in English only.
"""

from datetime import datetime

from mutirao.model.reading.standing import Reason, ReasonKind
from mutirao.web.access import Access
from mutirao.web.showing import utc
from mutirao.web.texts.language import Language

JOBS_NAMED = 8


def is_hidden(reason: Reason, access: Access) -> bool:
    """Return whether a reason has something that the caller may not see: then it is brief.

    Others' jobs may not be shown to a caller that sees only some, nor what a limit counts by
    without contents.
    """
    of_argument = reason.kind is ReasonKind.LIMIT and not access.contents
    return reason.is_of_others and (bool(access.only) or of_argument)


def said(reason: Reason, language: Language, now: datetime, *, hidden: bool = False) -> str:
    """Return a reason as a sentence; `hidden`: without facts about other jobs."""
    facts = dict(reason.facts)
    key = f"why.{reason.kind}"
    if hidden:
        return language(f"{key}.brief", **facts)
    if reason.kind is ReasonKind.LIMIT and facts.get("most") is None:
        key = "why.limit_gone"
    if isinstance(facts.get("run_at"), datetime):
        facts["run_at"] = f"{language.ago(facts['run_at'], now)} ({utc(facts['run_at'])})"
    return language(key, **facts)


def jobs_in(reason: Reason) -> tuple[int, ...]:
    """Return the jobs that a reason names, the first ones."""
    found = reason.facts.get("jobs", reason.facts.get("job"))
    if reason.kind is ReasonKind.AFTER and isinstance(found, list):
        return tuple(found[:JOBS_NAMED])
    return (found,) if reason.kind is ReasonKind.KEY and isinstance(found, int) else ()
