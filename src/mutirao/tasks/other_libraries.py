"""Explains options of other libraries: an error names the equivalent option here."""

from typing import TYPE_CHECKING, NoReturn

_OURS = {
    "delay": "enqueue(…)",
    "apply_async": "using(delay=…, queue=…).enqueue(…)",
    "send": "enqueue(…)",
    "send_with_options": "using(…).enqueue(…)",
    "defer": "enqueue(…)",
    "defer_async": "aenqueue(…)",
    "configure": "using(…)",
    "schedule": "using(run_at=…).enqueue(…)",
    "call_local": "(…), a plain call",
    "s": "job(…), for chain, group and enqueue_many",
    "si": "job(…), for chain, group and enqueue_many",
}


class OtherWords:
    """A class whose missing attributes are looked up among the names of other libraries."""

    name: str

    if not TYPE_CHECKING:  # to a type checker a missing attribute is one

        def __getattr__(self, name: str) -> NoReturn:
            """Raise AttributeError, with the name here if another library's name is known."""
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name in _OURS and "name" in self.__dict__:
                text = f"task {self.name!r} has no .{name}: say {_OURS[name]} instead"
            raise AttributeError(text, name=name, obj=self)
