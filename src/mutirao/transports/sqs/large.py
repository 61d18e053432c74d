"""Stores arguments that are too large for a message in S3; the message refers to them.

They are written before the message is sent, and deleted after the message is. A crash between the
two leaves an object behind: a lifecycle rule of the bucket should delete objects older than
messages can be.
"""

from collections.abc import Sequence
from typing import Any

from botocore.exceptions import ClientError

from mutirao.errors import TransportMismatch, TransportUnavailable
from mutirao.transports.sqs.failures import Raised
from mutirao.transports.sqs.logs import log

PREFIX = "mutirao/"  # of the keys of objects
MOST = 1_000  # objects of a request that deletes
MISSING = ("NoSuchBucket", "404", "NotFound")
NEVER = (*MISSING, "AccessDenied", "403", "InvalidBucketName", "PermanentRedirect")


class LargeBodies:
    """The arguments of large messages, in a bucket.

    Parameters:
        client: a client of boto3 for S3.
        bucket: its name.
    """

    def __init__(self, client: Any, bucket: str) -> None:
        self._client, self._bucket = client, bucket

    def put(self, id: str, args: bytes) -> None:
        """Keep the arguments of a message; raises what `Transport.publish` reports."""
        try:
            self._client.put_object(
                Bucket=self._bucket, Key=PREFIX + id, Body=args, ContentType="application/json"
            )
        except Raised as error:
            problem = f"message {id} is too large for SQS, and bucket {self._bucket!r} of S3"
            if _code(error) in NEVER:
                raise TransportMismatch(f"{problem} is not there or forbidden: {error}") from error
            raise TransportUnavailable(f"{problem} cannot be used now: {error}") from error

    def get(self, id: str) -> bytes:
        """Return the arguments of a message.

        Raises:
            LookupError: they are not there, or may not be read.
            TransportUnavailable: S3 cannot be used now.
        """
        try:
            found = self._client.get_object(Bucket=self._bucket, Key=PREFIX + id)
            return bytes(found["Body"].read())
        except Raised as error:
            problem = f"its arguments are in S3 ({self._bucket}/{PREFIX}{id})"
            if _code(error) in (*NEVER, "NoSuchKey"):
                raise LookupError(f"{problem}, and cannot be read there: {error}") from error
            raise TransportUnavailable(f"{problem}, which cannot be used now: {error}") from error

    def drop(self, ids: Sequence[str]) -> None:
        """Delete the arguments of messages that are done with; what fails stays, and is logged."""
        for start in range(0, len(ids), MOST):
            some = ids[start : start + MOST]
            asked = {"Objects": [{"Key": PREFIX + id} for id in some], "Quiet": True}
            try:
                answer = self._client.delete_objects(Bucket=self._bucket, Delete=asked)
                failed: object = answer.get("Errors")
            except Raised as error:
                failed = error
            if failed:
                log.warning("arguments of messages stay in bucket %s: %s", self._bucket, failed)

    def missing(self) -> bool:
        """Return whether the bucket is not there."""
        try:
            self._client.head_bucket(Bucket=self._bucket)
        except Raised as error:
            if _code(error) in MISSING:
                return True
            raise TransportUnavailable(f"bucket {self._bucket!r} of S3: {error}") from error
        return False

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _code(error: Exception) -> str:
    return str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else ""
