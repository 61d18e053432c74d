"""The file of tokens: a scope, a name and a token a line, and what whoever has one may do."""

from __future__ import annotations

import base64

import pytest

from mutirao.web.access import Access
from mutirao.web.credentials import Credentials
from mutirao.web.scoped_tokens import ScopedTokens

FILE = """
# programs
read  grafana  b7c1f0aa55e2
act   shop-5   5d2a09bb31c4   tenant:5 queue:mail

admin ana      e41d77aa02f9
"""


def test_each_token_has_its_scope() -> None:
    """With the name, for the record of what was done, and the filter of the jobs that it sees."""
    tokens = ScopedTokens.parse(FILE)
    assert tokens.access_of("Bearer b7c1f0aa55e2") == Access.read("grafana")
    assert tokens.access_of("bearer  5d2a09bb31c4 ") == Access.act(
        "shop-5", only="tenant:5 queue:mail"
    )
    assert tokens.access_of("Bearer e41d77aa02f9") == Access.admin("ana")


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Bearer b7c1f0aa55e", "Bearer b7c1f0aa55e2x",
               "Basic b7c1f0aa55e2", "b7c1f0aa55e2", "Bearer \ud800"],
)  # fmt: skip
def test_what_is_no_token_allows_nothing(header: str) -> None:
    """Nor does a part of one, or one under another scheme."""
    assert ScopedTokens.parse(FILE).access_of(header) is None


def test_tokens_stand_beside_a_password() -> None:
    """A dashboard that stands alone takes either."""
    credentials = Credentials(
        user="ana", password="long enough pw", tokens=ScopedTokens.parse(FILE)
    )
    assert credentials.access_of("Basic YW5hOmxvbmcgZW5vdWdoIHB3") == Access.admin("ana")
    assert credentials.access_of("Bearer b7c1f0aa55e2") == Access.read("grafana")
    assert Credentials(tokens=ScopedTokens.parse(FILE))
    assert not Credentials()


def test_who_has_the_one_token_has_no_other_name() -> None:
    """Whoever has it could act in the name of somebody else otherwise."""
    credentials = Credentials(user="ana", password="long enough pw", token="one-long-token")
    for user in ("ana", "rui", ""):
        given = base64.b64encode(f"{user}:one-long-token".encode()).decode()
        assert credentials.access_of(f"Basic {given}") == Access.admin("token")


def test_a_file_without_tokens_is_refused() -> None:
    """It would let everybody of this machine in who wanted to ask for tokens."""
    with pytest.raises(ValueError, match="there are no tokens"):
        ScopedTokens.parse("# none yet\n")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("read grafana", "line 2 has 2 words"),
        ("look grafana b7c1f0aa55e2", "the scope of line 2 is none of read, act, admin"),
        ("none grafana b7c1f0aa55e2", "the scope of line 2 is none of"),
        ("read grafana short", "line 2: the token has 5 characters"),
        ("read b7c1f0aa55e2 queue:mail", "line 2: the token has 10 characters"),
        ("read b7c1f0aa55e2 queue:mail,bulk", "line 2: a filter stands where the token should"),
        ("read b7c1f0aa55e2 -tenant:5,6,7,8", "line 2: a filter stands where the token should"),
        ("read b7c1f0aa55e2 state:dead state:ready", "line 2: the token has 10 characters"),
        ("read b7c1f0aa55e2 7..99999999999", "line 2: a filter stands where the token should"),
        ("read grafana b7c1f0aa55e2 colour:red", "line 2: the filter, at character 1"),
        ("read the grafana b7c1f0aa55e2", "line 2: the filter, at character 1"),
        ("admin ana b7c1f0aa55e2 queue:mail", "line 2: an administrator sees all jobs"),
    ],
)
def test_a_line_that_cannot_be_is_told(line: str, why: str) -> None:
    """By its number; the token is not in the message."""
    with pytest.raises(ValueError, match=why) as refused:
        ScopedTokens.parse(f"# tokens\n{line}\n")
    assert "b7c1f0aa55e2" not in str(refused.value)


def test_a_token_belongs_to_one() -> None:
    """Otherwise nobody knows what it allows."""
    with pytest.raises(ValueError, match="two have the same token"):
        ScopedTokens.parse("read a b7c1f0aa55e2\nadmin b b7c1f0aa55e2\n")


def test_a_token_may_be_a_number() -> None:
    """Though a number alone is a filter, too: an id."""
    tokens = ScopedTokens.parse("read a 731846012957\n")
    assert tokens.access_of("Bearer 731846012957") == Access.read("a")


def test_tokens_are_not_printed() -> None:
    """Whatever prints them."""
    tokens = ScopedTokens.parse(FILE)
    assert "b7c1f0aa55e2" not in f"{tokens!r} {tokens._tokens!r}"


def test_two_tokens_of_one_name_are_refused() -> None:
    """Each would see and stop the actions of the other."""
    two = "read ana b7c1f0aa55e2\n\nact ana 5d2a09bb31c4\n"
    with pytest.raises(ValueError, match="lines 1 and 3 have the same name"):
        ScopedTokens.parse(two)
