"""The documentation as a site: Sphinx, MyST and furo (``make docs``); warnings are errors."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
_ABOUT = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "whowrote"
author = "The whowrote founders"
copyright = f"2026, {author}"  # the name that Sphinx asks for
release = version = _ABOUT["version"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "**/README.md"]
nitpicky = False  # types of torch and numpy have no pages here

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True, "inherited-members": False, "show-inheritance": False}

math_number_all = False
math_eqref_format = "({number})"
numfig = True

html_theme = "furo"
html_title = f"whowrote {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
html_show_sphinx = False
pygments_style = "friendly"
# Formulas are set by MathJax where the reader is online and stay plain TeX where not; nothing else
# on the site loads from elsewhere.


ROUTING = re.compile(r"set_\w+_request")
"""Methods that scikit-learn adds to every estimator, with links into its own pages."""


def written_pages_only(app: Any, name: str, source: list[str]) -> None:
    """Leave out of the start page's lists what is not written yet: pages slot in by their name."""
    if name == "index":
        kept = [
            line
            for line in source[0].splitlines()
            if not re.fullmatch(r"[a-z_]+", line) or (HERE / f"{line}.md").is_file()
        ]
        source[0] = "\n".join(kept) + "\n"


def skip_routing(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool:
    """Document our own methods alone."""
    return skip or bool(ROUTING.fullmatch(name))


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("source-read", written_pages_only)
    app.connect("autodoc-skip-member", skip_routing)
