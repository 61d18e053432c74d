# TEMPORARY
from types import SimpleNamespace as N
from collections import Counter
from datetime import timedelta
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any


class Stub:
    async def afigures(self) -> Any:
        return [
            N(queue=c.queue, state=c.state, jobs=c.jobs, at_least=False, oldest_age=c.oldest_age)
            for c in await self.acounts()
        ]

    async def asearch(self, f, *, cursor=None, size=50):
        jf = f.at(datetime.now(UTC), limit=size + 1)
        jobs = await self.store.jobs(jf)
        return N(jobs=jobs[:size], next=None, searched_all=True)

    async def ahours(self, since):
        from mutirao.model.jobs.job import OutcomeKind
        import random

        r = random.Random(1)
        out = []
        for i in range(24):
            out.append(
                N(
                    hour=since + timedelta(hours=i),
                    outcome=OutcomeKind.SUCCEEDED,
                    attempts=r.randint(40, 400),
                )
            )
            if i % 5 == 2:
                out.append(
                    N(
                        hour=since + timedelta(hours=i),
                        outcome=OutcomeKind.RETRIED,
                        attempts=r.randint(4, 40),
                    )
                )
        return out

    async def aminutes(self, minutes):
        from mutirao.model.jobs.job import OutcomeKind
        import random

        r = random.Random(2)
        now = datetime.now(UTC).replace(second=0, microsecond=0)
        return [
            N(
                minute=now - timedelta(minutes=i),
                outcome=OutcomeKind.SUCCEEDED if i % 9 else OutcomeKind.DEAD,
                attempts=r.randint(0, 30),
            )
            for i in range(60)
        ]

    async def awaits(self):
        return [N(queue="mail", p50=0.4, p95=31.0)]

    async def aerrors(self, limit=100, task=None):
        now = datetime.now(UTC)
        return [
            N(
                task="shop.send_receipt",
                error_type="smtplib.SMTPServerDisconnected",
                message="please run connect() first",
                jobs=12,
                attempts=40,
                first_at=now - timedelta(days=2),
                last_at=now - timedelta(minutes=3),
                filter="error:SMTPServerDisconnected",
            )
        ]

    async def arunning(self, limit=500):
        return []

    async def awhy(self, id):
        return []
