"""An application of Litestar with the sessions of advanced-alchemy."""

import os

from advanced_alchemy.extensions.litestar import SQLAlchemyAsyncConfig, SQLAlchemyPlugin
from litestar import Litestar, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath
from sqlalchemy.ext.asyncio import AsyncSession

from mutirao import Mutirao
from mutirao.integrations.litestar import MutiraoPlugin

URL = os.environ["MARKET"]

jobs = Mutirao(URL)


@jobs.task(keep_result=True)
async def weigh(kilos: int) -> str:
    """Tell in which process it is weighed."""
    return f"{kilos} kg in {os.getpid()}"


@post("/fruits/{kilos:int}")
async def place(kilos: FromPath[int], db_session: NamedDependency[AsyncSession]) -> dict[str, int]:
    """Take a fruit, in the session of the request, which commits when the answer is sent."""
    handle = await weigh.using(conn=db_session).aenqueue(kilos=kilos)
    return {"id": handle.id}


@get("/health")
async def health() -> dict[str, bool]:
    """Tell whether the worker works."""
    return {"alive": plugin.lifespan.health().alive}


plugin = MutiraoPlugin(jobs, worker=os.environ.get("EMBEDDED") == "yes")
config = SQLAlchemyAsyncConfig(connection_string=URL, before_send_handler="autocommit")
web = Litestar(route_handlers=[place, health], plugins=[SQLAlchemyPlugin(config=config), plugin])
