"""Words of other libraries, said to a task."""

from __future__ import annotations

import copy

import pytest

from mutirao import Mutirao

app = Mutirao()


@app.task(name="send")
def send() -> None: ...


@pytest.mark.parametrize(
    ("word", "ours"),
    [("delay", r"enqueue\(…\)"), ("apply_async", r"using\(delay=…"), ("s", r"job\(…\)")],
)
def test_our_word_is_told(word: str, ours: str) -> None:
    """Whoever comes from Celery need not look it up."""
    with pytest.raises(AttributeError, match=rf"task 'send' has no \.{word}: say {ours}"):
        getattr(send, word)


def test_others_are_missing_as_usual() -> None:
    """What nobody calls a task's method; copying and pickling look for methods of that kind."""
    with pytest.raises(AttributeError, match="'Task' object has no attribute 'colour'"):
        send.colour  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(send, "__deepcopy__")
    assert copy.copy(send).name == "send"
