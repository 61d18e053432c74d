"""Settings of Sphinx for the site of the documents: `make docs`.

The sources are the Markdown files where they stand, so that each link works in a clone, too.
"""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

project = "Mutirão"
author = "Mutirão contributors"
copyright = "Mutirão contributors, MIT licence"  # noqa: A001 (Sphinx asks for this name)
version = release = _PROJECT["version"]

root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "examples/README.md", "benchmarks/**/*.md"]
exclude_patterns = [".*", "docs/site/**"]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
]

myst_heading_anchors = 6  # pages link to headings as Git hosts name them
myst_enable_extensions = ["colon_fence", "deflist"]

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"Mutirão {release}"
html_extra_path: list[str] = ["extra"]
html_copy_source = False
html_show_sphinx = False
