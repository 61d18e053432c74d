"""The id of a job that is a message: programs without a broker load only this of messages."""

from typing import Self


class MessageId(int):
    """The id of a job that is a message: a number for programs, 32 hexadecimal digits for people.

    A job in a store has a number from there. A message gets its own: 128 bits, of a UUID.
    """

    __slots__ = ()

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the number of a message's id as text.

        Raises:
            ValueError: the text is no UUID.
        """
        digits = text.replace("-", "")
        if len(digits) != 32:
            raise ValueError(f"{text!r} has not the 32 digits of a UUID")
        return cls(digits, 16)

    def __str__(self) -> str:
        """Return the digits, as they travel."""
        return f"{int(self):032x}"

    def __repr__(self) -> str:
        """Return the digits."""
        return str(self)

    def __format__(self, spec: str) -> str:
        """Return the digits."""
        return format(str(self), spec)
