"""The documentation as a site: Sphinx with MyST and furo (``make docs``); every warning is an error."""

from __future__ import annotations

import tomllib
from pathlib import Path

HERE = Path(__file__).parent
_ABOUT = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "whowrote"
author = "The whowrote founders"
copyright = f"2026, {author}"  # the name that Sphinx asks for
release = version = _ABOUT["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "**/README.md"]
suppress_warnings = ["toc.empty_glob"]  # a page may be named before it is written
nitpicky = False  # types of torch and numpy have no pages here

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True, "inherited-members": False, "show-inheritance": False}
autosummary_generate = False

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
# Formulas are set by MathJax where the reader is online and are plain TeX where not: nothing else on
# the site loads from elsewhere.
