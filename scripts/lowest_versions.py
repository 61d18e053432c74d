"""Prints pip constraints that pin each dependency to the lowest version pyproject.toml allows.

The suite runs once with these, so that the bounds are tested and not guessed. Only the oldest
Python is pinned: newer ones often have no wheels of that time's releases; nothing is printed.
"""

import re
import sys
import tomllib
from pathlib import Path

OLDEST = (3, 11)
BOUND = re.compile(
    r"(?P<name>[\w.-]+)(\[[\w,-]+\])?>=(?P<version>[\w.]+)(; python_version < '3\.1\d')?"
)


def main() -> None:
    """Print one constraint a line."""
    if sys.version_info[:2] != OLDEST:
        return
    facts = tomllib.loads(Path("pyproject.toml").read_text())
    project = facts["project"]
    groups = [facts["dependency-groups"][name] for name in ("bench", "examples")]
    others = [*project["optional-dependencies"].values(), *groups]
    for requirement in sum(others, start=project["dependencies"]):
        if requirement.startswith(f"{project['name']}["):
            continue  # another extra of ours, whose requirements are among the others
        bound = BOUND.fullmatch(requirement)
        if bound is None:
            sys.exit(f"pyproject.toml has {requirement!r}; give it a lower bound: name>=version")
        print(f"{bound['name']}=={bound['version']}")


if __name__ == "__main__":
    main()
