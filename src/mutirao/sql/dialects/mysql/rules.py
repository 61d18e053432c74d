"""The general rules on MariaDB and MySQL, where no trigger makes live what others insert."""

from collections.abc import Collection
from datetime import datetime

from mutirao.model.jobs.job import LaneHead
from mutirao.sql.dialects.mysql.words import WORDS
from mutirao.sql.drivers.steps import Asking
from mutirao.sql.rules import claim
from mutirao.sql.rules.generic import LockAskWrite


class MysqlRules(LockAskWrite):
    """Who looks for lanes puts into them what other programs have inserted."""

    bracket = WORDS.transaction

    def lanes(self, queues: Collection[str] | None, now: datetime | None) -> Asking[list[LaneHead]]:
        """Read the heads of all lanes."""
        moment = yield from WORDS.place_inserted()
        return (yield from claim.lanes(WORDS, queues, now or moment))


RULES = MysqlRules(WORDS)
