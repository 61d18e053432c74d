"""Signatures: by Standard Webhooks, checked with libraries that share no code with the sender."""

from __future__ import annotations

import base64
import logging
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from nacl.signing import SigningKey, VerifyKey
from standardwebhooks import Webhook

from mutirao.errors import (
    InvalidEndpoint,
    InvalidSecret,
    InvalidWebhook,
    MutiraoError,
    StaleWebhook,
    WrongSignature,
)
from mutirao.webhooks import Secret, new_key, new_secret, sign, verify

NOW = 1_764_000_000
BODY = '{"order": 7, "name": "Ação"}'.encode()
OLD, NEW, KEY = new_secret(), new_secret(), new_key()


def signed(*secrets: str, id: str = "msg_1", at: int = NOW, body: bytes = BODY) -> dict[str, str]:
    """Return the headers of a webhook that is signed by these."""
    return sign(id, at, body, [Secret.parse(secret) for secret in secrets])


def test_the_published_example() -> None:
    """The example that the standard's libraries are tested with."""
    secret = Secret.parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    headers = sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body, [secret])
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_standards_library_verifies_ours() -> None:
    """Also while a secret is rotated, with either, and beside a signature of ed25519."""
    headers = signed(NEW, OLD, KEY, at=int(datetime.now(UTC).timestamp()))
    for secret in (NEW, OLD):
        Webhook(secret).verify(BODY, headers)


def test_we_verify_the_standards_library() -> None:
    """What it signs passes here."""
    at = datetime.fromtimestamp(NOW, UTC)
    signature = Webhook(OLD).sign("msg_1", at, BODY.decode())
    headers = {"webhook-id": "msg_1", "webhook-timestamp": f"{NOW}", "webhook-signature": signature}
    assert verify(headers, BODY, OLD, now=NOW).sent_at == at


def test_another_library_verifies_ed25519() -> None:
    """`v1a` is plain ed25519 over id, time and body."""
    version, signature = signed(KEY)["webhook-signature"].split(",")
    public = base64.b64decode(Secret.parse(KEY).public().removeprefix("whpk_"))
    content = f"msg_1.{NOW}.".encode() + BODY
    assert version == "v1a"
    assert VerifyKey(public).verify(content, base64.b64decode(signature)) == content


def test_we_verify_ed25519_of_another_library() -> None:
    """With its public key, and with its secret key as it is written: seed and public half."""
    key = SigningKey.generate()
    signature = base64.b64encode(key.sign(f"msg_1.{NOW}.".encode() + BODY).signature).decode()
    headers = signed(OLD) | {"webhook-signature": f"v1a,{signature}"}
    public = base64.b64encode(bytes(key.verify_key)).decode()
    both = base64.b64encode(bytes(key) + bytes(key.verify_key)).decode()
    for secret in (f"whpk_{public}", f"whsk_{both}"):
        assert verify(headers, BODY, secret, now=NOW).id == "msg_1"


def test_a_previous_secret_signs_until_its_time() -> None:
    """Then only the new one does; the id stays, the time is that of the attempt."""
    until = datetime.fromtimestamp(NOW + 10, UTC)
    secrets = [Secret.parse(NEW), Secret.parse(OLD, until=until)]
    for at, signatures in ((NOW, 2), (NOW + 9, 2), (NOW + 10, 1), (NOW + 99, 1)):
        headers = sign("msg_1", at, BODY, secrets)
        assert headers["webhook-id"] == "msg_1"
        assert headers["webhook-timestamp"] == str(at)
        assert len(headers["webhook-signature"].split(" ")) == signatures
    with pytest.raises(InvalidSecret, match="no secret is left"):
        sign("msg_1", NOW + 10, BODY, secrets[1:])


@pytest.mark.parametrize(
    "secret", [[OLD, NEW], [NEW, OLD], (OLD,), OLD], ids=["first", "second", "alone", "text"]
)
def test_a_receiver_may_have_several_secrets(secret: str | list[str]) -> None:
    """One that fits is enough, wherever it stands."""
    assert verify(signed(OLD), BODY, secret, now=NOW).id == "msg_1"


def test_headers_are_found_in_any_case_and_unknown_signatures_passed_by() -> None:
    """Signatures of other versions, or that are none, are for others."""
    headers = {name.title(): value for name, value in signed(OLD).items()}
    headers["Webhook-Signature"] = f"v9,AAAA nonsense v1,% v1a,AAAA {headers['Webhook-Signature']}"
    assert verify({**headers, "Host": "x"}, BODY, OLD, now=NOW).id == "msg_1"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda h: h.pop("webhook-id"), InvalidWebhook, "webhook-id is there 0 times"),
        (lambda h: h.pop("webhook-timestamp"), InvalidWebhook, "webhook-timestamp is there 0"),
        (lambda h: h.pop("webhook-signature"), InvalidWebhook, "webhook-signature is there 0"),
        (lambda h: h.update({"Webhook-Id": "x"}), InvalidWebhook, "there 2 times"),
        (lambda h: h.update({"webhook-id": ""}), InvalidWebhook, "empty"),
        (lambda h: h.update({"webhook-id": "x\udce9"}), InvalidWebhook, "expected printable"),
        (lambda h: h.update({"webhook-timestamp": "soon"}), InvalidWebhook, "Unix seconds"),
        (lambda h: h.update({"webhook-timestamp": "1e9"}), InvalidWebhook, "Unix seconds"),
        (lambda h: h.update({"webhook-timestamp": "9" * 400}), InvalidWebhook, "Unix seconds"),
        (lambda h: h.update({"webhook-timestamp": str(NOW + 1)}), WrongSignature, "no signature"),
        (lambda h: h.update({"webhook-id": "msg_2"}), WrongSignature, "no signature"),
        (lambda h: h.update({"webhook-signature": "v1,"}), WrongSignature, "no signature"),
        (lambda h: h.update({"webhook-signature": "v1,é"}), WrongSignature, "no signature"),
    ],
)
def test_what_is_refused(
    change: Callable[[dict[str, str]], object], error: type[InvalidWebhook], message: str
) -> None:
    """A header that is missing, twice, unreadable or of another webhook."""
    headers = signed(OLD)
    change(headers)
    with pytest.raises(error, match=message) as refused:
        verify(headers, BODY, OLD, now=NOW)
    assert type(refused.value) is error
    assert isinstance(refused.value, MutiraoError)


def test_another_body_or_secret_is_refused() -> None:
    """A byte more, another secret, a shared secret in place of a key."""
    for body, secret in ((BODY + b" ", OLD), (BODY, NEW), (BODY, Secret.parse(KEY).public())):
        with pytest.raises(WrongSignature):
            verify(signed(OLD), body, secret, now=NOW)
    with pytest.raises(InvalidWebhook, match="give the bytes"):
        verify(signed(OLD), BODY.decode(), OLD, now=NOW)  # type: ignore[arg-type]


def test_only_so_many_signatures_are_looked_at() -> None:
    """A stranger's header does not buy time of a processor."""
    headers = signed(KEY)
    headers["webhook-signature"] = "v1a,AAAA " * 20 + headers["webhook-signature"]
    with pytest.raises(WrongSignature):
        verify(headers, BODY, KEY, now=NOW)


@pytest.mark.parametrize(
    ("now", "tolerance", "passes"),
    [
        (NOW + 300, 300, True),
        (NOW - 300, 300, True),
        (NOW + 301, 300, False),
        (NOW - 301, 300, False),
        (NOW + 301, 3_600, True),
        (NOW, float("nan"), False),
    ],
)
def test_tolerance(now: float, tolerance: float, passes: bool) -> None:
    """The time of the attempt may differ so much, in both directions."""
    if passes:
        assert verify(signed(OLD), BODY, OLD, tolerance=tolerance, now=now).id == "msg_1"
    else:
        with pytest.raises(StaleWebhook, match="Check the clock"):
            verify(signed(OLD), BODY, OLD, tolerance=tolerance, now=now)


@pytest.mark.parametrize("id", ["", "a.b", "a b", "a\nb", "ação", "x" * 256])
def test_ids_that_cannot_be(id: str) -> None:
    """A full stop separates what is signed; a header has no line breaks."""
    with pytest.raises(InvalidEndpoint, match="webhook id"):
        signed(OLD, id=id)


def of(prefix: str, length: int) -> str:
    """Return a secret with so many bytes."""
    return prefix + base64.b64encode(b"s" * length).decode()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (of("whsec_", 23), r"23 bytes; expected 24 to 64 random ones: make one with .*new_secret"),
        (of("whsec_", 65), "65 bytes"),
        ("whsec_", "0 bytes"),
        ("whsec_s3cr3t!", "not base64"),
        (of("", 32), "does not begin with whsec_"),
        ("secret", "does not begin"),
        (b"whsec_" + b"A" * 44, "a bytes, does not begin"),
        (of("whpk_", 31), "31 bytes, not 32"),
        (of("whsk_", 31), "31 bytes, not 32 or 64"),
        (of("whsk_", 64), "public half"),
    ],
)
def test_secrets_that_cannot_be(text: str, message: str) -> None:
    """They are refused with what to do, and the message does not have them."""
    with pytest.raises(InvalidSecret, match=message) as refused:
        Secret.parse(text)
    rest = str(text).partition("_")[2]
    assert not rest or rest not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("length", [24, 64])
def test_the_shortest_and_the_longest_secret(length: int) -> None:
    """Both sign, with padding or without."""
    text = of("whsec_", length)
    assert signed(text) == signed(text.rstrip("="))


def test_a_time_without_zone_is_refused() -> None:
    """It would end at another moment on each machine."""
    with pytest.raises(InvalidSecret, match="no zone"):
        Secret.parse(OLD, until=datetime(2031, 1, 1))  # noqa: DTZ001 (that is what is refused)


def test_a_public_key_does_not_sign_and_a_secret_has_no_public_part() -> None:
    """Each says what to give instead."""
    public = Secret.parse(Secret.parse(KEY).public())
    assert public.public() == Secret.parse(KEY).public()
    with pytest.raises(InvalidSecret, match="whsk_"):
        sign("msg_1", NOW, BODY, [public])
    with pytest.raises(InvalidSecret, match="new_key"):
        Secret.parse(OLD).public()


@pytest.mark.parametrize("text", [OLD, KEY], ids=["whsec", "whsk"])
def test_secrets_are_not_shown(text: str, caplog: pytest.LogCaptureFixture) -> None:
    """Neither by repr and str, nor in a log; a pickle is for other processes, and has it."""
    secret = Secret.parse(text, until=datetime.now(UTC) + timedelta(days=1))
    logging.getLogger().warning("%s %r %s", secret, [secret], {"secret": secret})
    shown = caplog.text + f"{secret} {secret!r}"
    assert text.partition("_")[2][:20] not in shown
    assert repr(secret.material) not in shown
    assert pickle.loads(pickle.dumps(secret)) == secret  # noqa: S301 (our own bytes)
