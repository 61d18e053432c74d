"""A store in memory, for unit tests: every promise of `mutirao.ports.Store` but durability."""

from mutirao.testing.memory.store import MemoryStore

__all__ = ["MemoryStore"]
