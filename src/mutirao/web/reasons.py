"""Why a job is not running, in the words of a language.

The kinds and the facts are the store's; a kind without a text here is told in its own words.
"""

from typing import Any

from mutirao.web.texts.language import Language


def said(reason: Any, language: Language) -> str:
    """Return a reason in words."""
    key = f"why.{reason.kind}"
    if key not in language.texts:
        return str(reason.text)
    facts = {
        name: ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
        for name, value in reason.facts.items()
    }
    try:
        return language(key, **facts)
    except KeyError:  # a fact is missing
        return str(reason.text)
