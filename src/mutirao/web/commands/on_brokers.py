"""Commands on dead messages of a broker: return them to their queue, or drop them."""

from collections.abc import Awaitable, Callable, Sequence

from mutirao.errors import ConfigurationError
from mutirao.model.audit.actions import About
from mutirao.ports import Transport
from mutirao.web.commands.on_things import name_in
from mutirao.web.commands.page_command import Run
from mutirao.web.forms import Fields, Misread
from mutirao.web.page_call import Notice, PageCall

Do = Callable[[Transport, str, Sequence[str]], Awaitable[int]]


def on_dead(command: str, do: Do) -> Run:
    """Return a command on the dead messages that were chosen."""

    async def run(call: PageCall, form: Fields) -> Notice:
        queue, ids = name_in(form, "queue"), form.several("message", 500)
        if not ids:
            raise Misread("refused.no_ids")
        transport = call.client.transports.get(queue)
        if transport is None:
            raise ConfigurationError(f"no broker has queue {queue!r}")
        about = About(command, "messages", f"{queue}: {', '.join(ids)}"[:500])
        number = await call.noted(about, lambda: do(transport, queue, ids))
        return Notice(f"done.{command}" if number else "failed.messages", number)

    return run
