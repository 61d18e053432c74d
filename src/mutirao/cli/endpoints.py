"""`endpoints`: where webhooks go, and what becomes of their deliveries."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, cast

import click

from mutirao.cli.endpoint_news import answer_of, answered, print_missed, warn_of_url
from mutirao.cli.group import WholeHelp
from mutirao.cli.options import (
    WHEN_DEAD,
    Command,
    as_json,
    ask,
    duration,
    json_object,
    noted,
    option,
    past,
    target,
    waits,
)
from mutirao.cli.output import fields_of, print_done, print_fields, print_json, print_table
from mutirao.cli.target import AppCommand, load_app
from mutirao.cli.topics import warn_of_topics
from mutirao.model.audit.actions import About
from mutirao.model.jobs.job import JobState
from mutirao.model.webhooks.endpoints import EndpointRecord
from mutirao.model.webhooks.webhook_rules import METHODS

endpoint_id = click.argument("id")
secret_file = option(
    "--secret-file",
    type=click.File(),
    help="A file with the secret (whsec_… or whsk_…), or - for the standard input: everybody on a"
    " machine sees command lines.",
)


@click.group(cls=WholeHelp)
def endpoints() -> None:
    """Put, list, pause and test endpoints of webhooks, and send deliveries again."""


@endpoints.command("list", cls=AppCommand)
@target
@as_json
def list_(target: str, as_json: bool) -> None:
    """List endpoints by id, with what is held for them."""
    app = load_app(target)
    found = ask(app, lambda: app.endpoints.alist())
    if as_json:
        print_json(found)
        return
    print_table(
        ("id", "host", "topics", "tenant", "group", "signed", "state", "held", "failing since"),
        [
            (e.id, e.host, e.topics, e.tenant, e.group, e.signed or "no", _state(e), e.held,
             e.failing_since)
            for e in found
        ],
        empty="no endpoints",
    )  # fmt: skip


@endpoints.command(cls=AppCommand)
@target
@endpoint_id
@as_json
def show(target: str, id: str, as_json: bool) -> None:
    """Show endpoint ID."""
    app = load_app(target)
    found = ask(app, lambda: app.endpoints.aget(id))
    if as_json:
        print_json(found)
    else:
        names = EndpointRecord.__slots__
        print_fields((name.replace("_", " "), getattr(found, name)) for name in names)


def _put_options(command: Command) -> Command:
    for decorate in reversed((
        secret_file,
        option("--unsigned", is_flag=True, help="Send without a signature."),
        option("--signer", help="A signer of the application, instead of a secret."),
        option("--method", type=click.Choice(METHODS), default="POST"),
        option("--headers-file", type=click.File(), help="A JSON object of headers to send."),
        option("--body", type=click.Choice(["event", "payload"]), default="event",
               help="An object of type, timestamp and data, or what was published alone."),
        option("--connect", type=float, default=5.0, help="Seconds until there is a connection."),
        option("--first-byte", type=float, default=15.0, help="Seconds of silence."),
        option("--whole", type=float, default=30.0, help="Seconds of an attempt."),
        option("--redirects", type=int, default=0, help="How many are followed."),
        option("--accepts-3xx", is_flag=True, help="Let answers of 3xx be success, too."),
        option("--rate", type=float, help="Deliveries that start in any second at most."),
        option("--concurrency", type=int, help="Deliveries at once, less than the usual 50."),
        option("--tenant", help="Only what is published for this tenant."),
        option("--group", help="And for this group."),
        option("--filter", type=json_object, help="Only what has such fields, as JSON."),
        option("--order-by", help="A field: equal ones are delivered one after another."),
        option("--when-dead", type=WHEN_DEAD, help="What a dead one does to those after it."),
        option("--retry", type=waits, help="Waits between attempts: 5s,1m,1h; or: never."),
    )):  # fmt: skip
        command = decorate(command)
    return command


@endpoints.command(cls=AppCommand)
@target
@endpoint_id
@click.argument("url")
@click.argument("topics", nargs=-1, required=True)
@_put_options
@as_json
def put(
    target: str,
    id: str,
    url: str,
    topics: tuple[str, ...],
    secret_file: Any,
    unsigned: bool,
    headers_file: Any,
    as_json: bool,
    **terms: Any,
) -> None:
    """Send what is published on TOPICS to URL; replaces endpoint ID if there is one.

    \b
    mutirao endpoints put shop:app erp https://erp.example/hook "order.*" --secret-file erp.secret
    """
    if sum((secret_file is not None, unsigned, terms["signer"] is not None)) > 1:
        raise click.UsageError("give one of --secret-file, --signer and --unsigned")
    if secret_file is not None or unsigned:
        terms["secret"] = None if secret_file is None else secret_file.read().strip()
    if headers_file is not None:
        terms["headers"] = json_object(headers_file.read())
    app = load_app(target)
    noted(app, About("put", "endpoint", id), lambda: app.endpoints.aput(id, url, topics, **terms))
    print_done({"put": id}, f"endpoint {id} is in force", as_json)
    warn_of_url(url)
    warn_of_topics(app, *topics)


@endpoints.command(cls=AppCommand)
@target
@endpoint_id
@secret_file
@option("--keep", type=duration, default="1d", help="How long the previous one signs beside it.")
@as_json
def rotate(target: str, id: str, secret_file: Any, keep: timedelta, as_json: bool) -> None:
    """Give endpoint ID another secret; the previous one signs as well for a while."""
    if secret_file is None:
        raise click.UsageError("no secret is given; give --secret-file FILE")
    app = load_app(target)
    secret = secret_file.read().strip()
    noted(app, About("rotate", "endpoint", id), lambda: app.endpoints.arotate(id, secret, keep))
    print_done({"rotated": id}, f"endpoint {id} has another secret", as_json)


@endpoints.command(cls=AppCommand)
@target
@endpoint_id
@as_json
def pause(target: str, id: str, as_json: bool) -> None:
    """Hold deliveries to endpoint ID until it is resumed; they are made as before."""
    app = load_app(target)
    noted(app, About("pause", "endpoint", id), lambda: app.endpoints.apause(id))
    print_done({"paused": id}, f"endpoint {id} is paused", as_json)


@endpoints.command(cls=AppCommand)
@target
@endpoint_id
@as_json
def resume(target: str, id: str, as_json: bool) -> None:
    """Let out what is held for endpoint ID: paused, disabled, or its breaker open."""
    app = load_app(target)
    before = ask(app, lambda: app.endpoints.aget(id))
    noted(app, About("resume", "endpoint", id), lambda: app.endpoints.aresume(id))
    print_done({"resumed": id}, f"endpoint {id} is resumed", as_json)
    print_missed(before)


@endpoints.command(cls=AppCommand)
@target
@endpoint_id
@as_json
def probe(target: str, id: str, as_json: bool) -> None:
    """Let one delivery through to endpoint ID now; if it succeeds, the others follow."""
    app = load_app(target)
    probed = noted(app, About("probe", "endpoint", id), lambda: app.endpoints.aprobe(id))
    state = "is tried with the next delivery" if probed else "has no open breaker"
    print_done({"probed" if probed else "unchanged": id}, f"endpoint {id} {state}", as_json)


@endpoints.command(cls=AppCommand)
@target
@endpoint_id
@as_json
def remove(target: str, id: str, as_json: bool) -> None:
    """Remove endpoint ID; what waits for it is cancelled when it is due."""
    app = load_app(target)
    noted(app, About("remove", "endpoint", id), lambda: app.endpoints.aremove(id))
    print_done({"removed": id}, f"endpoint {id} is removed", as_json)


@endpoints.command(cls=AppCommand)
@target
@endpoint_id
@option("--wait", type=duration, help="Wait so long at most, and print the answer (30s).")
@as_json
def test(target: str, id: str, wait: timedelta | None, as_json: bool) -> None:
    """Send a sample to endpoint ID, by a worker, in one attempt.

    With --wait, print how it was answered, and fail unless it has arrived.
    """
    app, about = load_app(target), About("test", "endpoint", id)
    if wait is None:
        sample = noted(app, about, lambda: app.endpoints.atest(id))
        print_done(fields_of(sample), f"job {sample.id} sends a sample to endpoint {id}", as_json)
        return
    job = noted(app, about, lambda: answered(app, id, wait.total_seconds()))
    if as_json:
        print_json(answer_of(job))
    else:
        print_fields((name.replace("_", " "), value) for name, value in answer_of(job).items())
    if job.state is not JobState.SUCCEEDED:
        raise click.exceptions.Exit(1)


@endpoints.command(cls=AppCommand)
@target
@endpoint_id
@click.argument("jobs", metavar="[JOB]...", type=click.IntRange(min=1), nargs=-1)
@option("--after", type=past, help="Made since a moment, or so long ago (2h).")
@option("--before", type=past, help="Made before a moment, or so long ago (2h).")
@option("--state", type=click.Choice(["dead", "succeeded"]), default="dead")
@as_json
def replay(
    target: str,
    id: str,
    jobs: tuple[int, ...],
    after: datetime | None,
    before: datetime | None,
    state: str,
    as_json: bool,
) -> None:
    """Send deliveries to endpoint ID again: those of these jobs, or all that ended so.

    The webhooks keep their ids.
    """
    app = load_app(target)
    ended = cast(Literal["dead", "succeeded"], state)
    which: Mapping[str, Any] = {"after": after, "before": before, "state": ended}
    again = noted(
        app, About("replay", "endpoint", id), lambda: app.endpoints.areplay(id, *jobs, **which)
    )
    line = f"{len(again)} deliveries are sent to endpoint {id} again"
    print_done({"replayed": again}, line, as_json)


def _state(endpoint: EndpointRecord) -> str:
    if not endpoint.active:
        return f"disabled: {endpoint.disabled_reason}"
    if endpoint.paused:
        return "paused"
    return "ready" if endpoint.breaker == "closed" else endpoint.breaker
