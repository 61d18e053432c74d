"""Tools with which applications test their jobs.

`capture` keeps enqueued jobs and asserts about them, `inline` runs them at once, `drain`
and `adrain` run what is due in a real database. `mutirao.testing.fixtures` has pytest fixtures,
and the distribution `mutirao-conformance` the suites that third-party backends pass.
"""

from mutirao.testing.capturing import Captured, capture, inline
from mutirao.testing.draining import adrain, drain
from mutirao.testing.memory import MemoryStore

__all__ = ["Captured", "MemoryStore", "adrain", "capture", "drain", "inline"]
