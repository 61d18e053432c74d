"""The meaning of errors of SQS and boto3, as errors of Mutirão."""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeVar

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
    SSOError,
)

from mutirao.errors import (
    DeliveryLost,
    TransportDenied,
    TransportError,
    TransportMismatch,
    TransportRefused,
    TransportUnavailable,
)

T = TypeVar("T")

# Everything that boto3 raises. Errors of urllib3 and of sockets come as BotoCoreError.
Raised = (ClientError, BotoCoreError)


class Meaning(Enum):
    """The meaning of an error."""

    AWAY = "it passes"
    MISSING = "the queue is not there"
    DENIED = "it is forbidden"
    UNKNOWN_CALLER = "the credentials are not valid (any more)"
    LOST = "the message is not this consumer's any more"
    CAPPED = "a message may not be kept for longer than 12 hours"
    SPLIT = "the batch is too large"
    REFUSED = "the message will never pass"


_CODES = {
    **dict.fromkeys(("NonExistentQueue", "QueueDoesNotExist", "InvalidAddress"), Meaning.MISSING),
    **dict.fromkeys(
        ("AccessDenied", "AccessDeniedException", "NotAuthorized", "KmsAccessDenied",
         "KmsDisabled"),
        Meaning.DENIED,
    ),
    **dict.fromkeys(
        ("ExpiredToken", "ExpiredTokenException", "RequestExpired", "InvalidClientTokenId",
         "InvalidAccessKeyId", "UnrecognizedClientException", "SignatureDoesNotMatch",
         "InvalidSignatureException", "AuthFailure", "IncompleteSignature",
         "IncompleteSignatureException", "MissingAuthenticationToken",
         "MissingAuthenticationTokenException", "RequestTimeTooSkewed"),
        Meaning.UNKNOWN_CALLER,
    ),
    **dict.fromkeys(("ReceiptHandleIsInvalid", "MessageNotInflight"), Meaning.LOST),
    "BatchRequestTooLong": Meaning.SPLIT,
    **dict.fromkeys(
        ("InvalidMessageContents", "UnsupportedOperation", "InvalidAttributeValue"), Meaning.REFUSED
    ),
}  # fmt: skip


_WITHOUT_CREDENTIALS = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    SSOError,
)


def code_of(error: Exception) -> str:
    """Return the code of an error at SQS, or the name of its class."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", ""))
    return type(error).__name__


def meaning_of(error: Exception) -> Meaning:
    """Return the meaning of an error that boto3 raised."""
    if isinstance(error, _WITHOUT_CREDENTIALS):
        return Meaning.UNKNOWN_CALLER
    if not isinstance(error, ClientError):
        return Meaning.AWAY
    answer = error.response.get("Error", {})
    return meaning_of_code(answer.get("Code", ""), answer.get("Message", ""))


def meaning_of_entry(failed: Mapping[str, Any]) -> Meaning:
    """Return the meaning of an entry of `Failed` for its message."""
    meaning = meaning_of_code(failed.get("Code", ""), failed.get("Message", ""))
    if meaning is Meaning.AWAY and failed.get("SenderFault"):
        return Meaning.REFUSED
    return meaning


def meaning_of_code(code: str, text: str) -> Meaning:
    """Return the meaning of a code of SQS; the oldest ones have a prefix of several words."""
    last = code.rpartition(".")[2]
    if last == "InvalidParameterValue":  # one code for several things
        if "beyond the limit" in text:
            return Meaning.CAPPED
        lost = "receipt handle" in text.lower() or "not available for visibility" in text
        return Meaning.LOST if lost else Meaning.REFUSED
    return _CODES.get(last, Meaning.AWAY)


def transport_error(meaning: Meaning, what: str, said: object) -> TransportError:
    """Return the error of Mutirão for an answer of SQS; `what` begins its sentence."""
    match meaning:
        case Meaning.MISSING:
            return TransportMismatch(
                f"{what}: there is no such queue; make it with `mutirao transports declare`: {said}"
            )
        case Meaning.DENIED:
            return TransportMismatch(
                f"{what}: it is forbidden to these credentials; allow it in the queue's or the"
                f" role's policy: {said}"
            )
        case Meaning.UNKNOWN_CALLER:
            return TransportDenied(
                f"{what}: the credentials are missing, expired or wrong, or this machine's clock is"
                f" wrong; renew them, or set it: {said}"
            )
        case Meaning.LOST | Meaning.CAPPED:
            return DeliveryLost(f"{what}: {meaning.value}: {said}")
        case Meaning.REFUSED:
            return TransportRefused(f"{what}: it is refused: {said}")
    return TransportUnavailable(f"{what}: SQS cannot be used now: {said}")


def explain(error: Exception, what: str) -> TransportError:
    """Return the error of Mutirão for one that boto3 raised."""
    return transport_error(meaning_of(error), what, error)


def of_queue(name: str, ask: Callable[[], T]) -> T:
    """Return what `ask` does; if there is no such queue, raise with Mutirão's name of it."""
    try:
        return ask()
    except TransportMismatch as missing:
        raise TransportMismatch(f"queue {name!r} of Mutirão: {missing}") from missing


def unless_missing(ask: Callable[[], str]) -> str | None:
    """Return what `ask` does; None if there is no such queue."""
    try:
        return ask()
    except TransportMismatch as missing:
        if "no such queue" in str(missing):
            return None
        raise
