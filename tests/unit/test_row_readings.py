"""JSON of rows is read in one place, whose failure is the outcome of that one row."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from mutirao.model import row_json
from mutirao.model.jobs.graph_flags import flags_of
from mutirao.model.limits.limit_values import MAX_VALUE, value_of
from mutirao.model.row_json import UnreadableRow
from mutirao.sql.schema.types import read_raw

ROOM = Path(__file__).parents[2] / "src/mutirao"
READERS = {"json.loads", "json.load", "msgspec.json.decode", "msgspec.convert"}
DECODERS = {"msgspec.json.Decoder", "json.Decoder", "json.JSONDecoder"}
DIGITS = "9" * 5_000

# Where something else is read, or the failure is the attempt's, and what keeps it so.
MAY_READ = {
    "model/row_json.py": "the one reading",
    "sql/schema/types.py": "the same, where values stay as they are written",
    "tasks/signatures/conversion.py": "makes decoders for signatures",
    "tasks/topics/subscription_options.py": "what a caller gives",
    "tasks/validation.py": "what a caller gives",
    "tasks/job_messages.py": "what a message of a broker says, and a claim that came from one",
    "client/jobs.py": "what a caller gives",
    "client/graphs.py": "a result, for the one who asks for it",
    "cli/options.py": "what somebody typed",
    "model/brokers/doorbell.py": "a message of a broker: what fails is buried",
    "model/schedules/token.py": "a message of a broker: what fails is buried",
    "engine/calls/child.py": "what the worker tells its own child process",
    "engine/calls/processes.py": "what a child process tells its worker",
    "engine/workers/newer_workers.py": "what another worker tells through a broker",
    "sql/statements/subscriptions.py": "the types of options that were read: it fails one alone",
    "hub/protocol.py": "what is told to a hub",
    "integrations/django/admin/named_pages.py": "what somebody typed into a form",
    "web/api/call.py": "what a program sends: it gets a problem",
    "transports/": "messages and settings of brokers",
    "federation/": "documents of other servers, and messages of ours",
    "testing/": "tests",
}


def readings(source: str) -> Iterator[str]:
    """Yield how JSON is read in a module: by which function or decoder, and in which line."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("json", "msgspec.json", "msgspec"):
            for each in node.names:
                if each.name in ("loads", "load", "decode", "Decoder", "convert"):
                    yield f"{node.lineno}: from {node.module} import {each.name}"
        if isinstance(node, ast.Call) and ast.unparse(node.func) in READERS | DECODERS:
            yield f"{node.lineno}: {ast.unparse(node.func)}"
        if isinstance(node, ast.Attribute) and ast.unparse(node) in READERS:
            yield f"{node.lineno}: {ast.unparse(node)}"


def test_rows_are_read_in_one_place() -> None:
    """Any other reading of JSON has a reason here, and each reason a reading."""
    used, found = set(), {}
    for path in sorted(ROOM.rglob("*.py")):
        place = str(path.relative_to(ROOM))
        if not (said := sorted(set(readings(path.read_text())))):
            continue
        if allowed := [each for each in MAY_READ if place == each or place.startswith(each)]:
            used.update(allowed)
        else:
            found[place] = said
    assert found == {}, "read what stands in rows by mutirao.model.row_json"
    assert {each for each in MAY_READ if each not in used} == set()


@pytest.mark.parametrize(
    "source",
    [
        "import json\njson.loads(row.args)",
        "import msgspec\nmsgspec.json.decode(row.args, type=dict)",
        "import msgspec\nmsgspec.convert(row, Job)",
        "import msgspec\nread = msgspec.json.Decoder(dict).decode",
        "from json import loads",
        "import json\nmap(json.loads, rows)",
    ],
)
def test_a_reading_is_noticed(source: str) -> None:
    """The rule above can fail."""
    assert list(readings(source))


@pytest.mark.parametrize(
    "text", [f"[{DIGITS}]", "[" * 100_000, "{", "", '{"a":1}', b"\xff", '"\\ud83d', None, 7]
)
def test_a_reading_raises_nothing_else(text: str) -> None:
    """Whatever a row has, numbers among it: it is no list, and says so."""
    for read in (row_json.read_list, lambda told: row_json.read_object([told])):  # type: ignore[arg-type]
        with pytest.raises(UnreadableRow) as caught:
            read(text)
        assert len(str(caught.value)) < 400
    if text != '{"a":1}':
        with pytest.raises(UnreadableRow):
            read_raw(text, "it")


def test_values_that_nobody_can_read() -> None:
    """Limits count them under the empty value; what is no character is written otherwise."""
    for args in (f'{{"key":"a","more":{DIGITS}}}', '{"key":' + "[" * 100_000, "[1]", "{"):
        assert value_of(args, "key") == ""
    assert value_of(r'{"key":"\ud83d"}', "key") == r"\ud83d"
    assert value_of(r'{"key":"a\u0000"}', "key") == r"a\x00"
    assert value_of('{"key":"' + r"\ud83d" * 500 + '"}', "key") == (r"\ud83d" * 500)[:MAX_VALUE]
    assert value_of('{"key":[1,"é"]}', "key") == '[1,"é"]'


def test_flags_that_nobody_can_read() -> None:
    """They are an error of their own; other types are no flags."""
    for metadata in (f'{{"mutirao":{DIGITS}}}', '["mutirao"]', '"mutirao"'):
        with pytest.raises(UnreadableRow):
            flags_of(metadata)
    for metadata in ('{"mutirao":7}', '{"mutirao":["step"]}', '{"mutirao":null}'):
        assert flags_of(metadata) == frozenset()
    assert flags_of('{"mutirao":"step takes"}') == {"step", "takes"}
