"""Translates findings into the language of a reader, if there is a text for them.

A finding is made in English, where it is found. Here its text is recognised by its pattern, and
its facts are put into the pattern's translation. A text without translation stays English.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from mutirao.model.finding_texts.in_portuguese import PORTUGUESE
from mutirao.model.findings import Finding

_LANGUAGES: Mapping[str, Mapping[str, str]] = {"pt": PORTUGUESE}
_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")  # the first one that is set decides, as in POSIX


def language_of(environment: Mapping[str, str]) -> str:
    """Return the language that an environment asks for, such as `pt`; `en` if it has no texts."""
    named = next((environment[each] for each in _VARIABLES if environment.get(each)), "")
    code = re.split(r"[_.@-]", named.lower())[0]
    return code if code in _LANGUAGES else "en"


def translated(finding: Finding, language: str) -> Finding:
    """Return a finding with its texts in a language: `pt`, `pt-BR`; unchanged in English.

    Its level and its subject are names for programs, and stay as they are.
    """
    advice = None if finding.advice is None else translated_text(finding.advice, language)
    return replace(finding, found=translated_text(finding.found, language), advice=advice)


def translated_text(text: str, language: str) -> str:
    """Return a text in a language, or the text itself if there is none in that."""
    code = language.split("-")[0]
    if code not in _LANGUAGES:
        return text
    if exact := _LANGUAGES[code].get(text):
        return exact
    for pattern, translation in _patterns(code):
        if found := pattern.fullmatch(text):
            return translation.format(*found.groups())
    return text


@cache
def _patterns(code: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return the texts that contain facts, those with the most fixed words first."""
    texts = _LANGUAGES[code]
    with_facts = sorted((each for each in texts if "{}" in each), key=_own, reverse=True)
    return tuple((_pattern(each), texts[each]) for each in with_facts)


def _own(text: str) -> int:
    return len(text.replace("{}", ""))


def _pattern(text: str) -> re.Pattern[str]:
    parts = (re.escape(part) for part in text.split("{}"))
    return re.compile("(.+?)".join(parts), re.DOTALL)
