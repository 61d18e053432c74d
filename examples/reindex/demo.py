"""Seven things that people do with a table and SKIP LOCKED, done with jobs.

    python examples/reindex/demo.py [DATABASE-URL]

Runs all in `programs`, one after another. Each tells in its first lines what it shows,
and which SQL it takes otherwise. Exit status 0: all have done it.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "shared"))
from house import opened

PROGRAMS = ("priority", "errors", "hang", "figures", "rerun", "stages", "schedules")


def main(arguments: list[str]) -> int:
    """Run the demonstration; return the exit status."""
    with opened("reindex", Path(__file__).parent / "programs", arguments) as house:
        house.run(sys.executable, "-m", "mutirao", "migrate", "reindex:app")
        for program in PROGRAMS:
            print(f"\n{program}:", flush=True)
            house.run(sys.executable, f"{program}.py")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
