"""The files of `mutirao grafana`, written to a given directory, to be imported."""

import json
from importlib.resources import files
from pathlib import Path

from mutirao.telemetry.grafana import prometheus_board, sql_board

RULES = "alert_rules.yml"


def documents() -> dict[str, str]:
    """Return the text of each file, by its name."""
    boards = [prometheus_board.BOARD, *map(sql_board.board, sql_board.DATABASES)]
    texts = {
        f"{each.uid}.json": json.dumps(each.as_json(), indent=2, ensure_ascii=False) + "\n"
        for each in boards
    }
    rules = files("mutirao.telemetry.grafana").joinpath(RULES).read_text(encoding="utf-8")
    return {**texts, "mutirao-alerts.yml": rules}


def write(directory: Path) -> list[Path]:
    """Write all of them, replacing existing files; return their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in documents().items():
        path = directory / name
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written
