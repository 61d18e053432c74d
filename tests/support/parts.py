"""The parts of a store, for stand-ins that pass its calls on by their names."""

from __future__ import annotations

from typing import Any

from mutirao.ports import Store

PARTS = frozenset(name for name, of in vars(Store).items() if isinstance(of, property))


class PartOf:
    """A part of a stand-in, whose calls are the stand-in's, by names as `limits.put`."""

    def __init__(self, whole: Any, name: str) -> None:
        self._whole, self._name = whole, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, f"{self._name}.{name}")
