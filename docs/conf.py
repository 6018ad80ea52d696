"""The site of the documentation: `make docs`. Nothing is fetched while it is built or read."""

from __future__ import annotations

import inspect
import re
import warnings
from pathlib import Path

import drnmf

HERE = Path(__file__).parent

project = "drnmf"
author = copyright = "The drnmf developers"
version = release = drnmf.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
]
exclude_patterns = ["development/*", *(f"gallery/*.{kind}" for kind in ("ipynb", "json", "py", "zip", "md5"))]
templates_path = ["_templates"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
suppress_warnings = ["config.cache"]  # the order of the gallery is a function

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections say the types, with shapes
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "drnmf"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_search_summary = False  # summaries are fetched, which a browser refuses for files
html_theme_options = {
    "navbar_align": "left",
    "show_prev_next": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": []}

GALLERY = (
    "quickstart", "which_noise", "how_many", "pipeline_and_grid_search", "pareto", "separate_a_tune",
    "topics_of_texts", "count_signatures", "hyperspectral", "air_quality", "digits", "one_factor_for_all_hospitals",
    "spoiled_images", "counts_and_intensities",
    "ratings", "out_of_core", "a_stream_of_rows",
)  # fmt: skip


def order(name: str) -> int:
    """Place examples as listed, and any that are not listed last."""
    stem = Path(name).stem
    return GALLERY.index(stem) if stem in GALLERY else len(GALLERY)


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": order,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "matplotlib_animations": False,
}
warnings.filterwarnings("ignore", category=UserWarning)  # of short fits that stop before they converge

# Pages, wherever they are merged from, that no table of contents names yet.
NAMED = re.compile(r"^(?:.*<)?([\w/-]+)>?$", re.MULTILINE)


COMMAND = re.compile(r"^## drnmf (\w+).*?(?=^## )", re.MULTILINE | re.DOTALL)
"""The section of one command, up to the next one."""


def options_of(name: str) -> str:
    """Tabulate the options of a command as its --help has them, group by group."""
    from typer import Context
    from typer.main import get_command

    from drnmf.cli import app

    group = get_command(app)
    command = group.get_command(Context(group), name)
    panels: dict[str, list[str]] = {}
    for option in command.params:
        flags = [flag for flag in (*option.opts, *option.secondary_opts) if flag.startswith("-")]
        if flags and "--help" not in flags:
            shown = option.default is not None and not isinstance(option.default, bool) and not callable(option.default)
            default = " (needed)" if option.required else f" ({option.default})" if shown else ""
            meaning = (option.help or "").replace("|", "\\|").rstrip(".") + default
            panel = getattr(option, "rich_help_panel", None) or "Options"
            panels.setdefault(panel, []).append(f"| {', '.join(f'`{flag}`' for flag in flags)} | {meaning} |")
    tables = (
        f"**{panel}**\n\n| | meaning (default) |\n|---|---|\n" + "\n".join(rows) for panel, rows in panels.items()
    )
    return "\n\n".join(tables) + "\n\n"


OUTSIDE = re.compile(r"\]\((?:\.\./)*(CONTRIBUTING|CHANGELOG)\.md")
NOTES = re.compile(r"\[([^]]+)\]\((?:\.\./)*(?:docs/)?(development/[\w.-]+)(?:#[^)]*)?\)")
"""Links to development notes, which are in the repository and not on the site."""


def adapt(app: object, docname: str, content: list[str]) -> None:
    """Take the files beside the README in, let links lead to their pages, and list the pages that no page lists."""
    if docname in ("contributing", "changelog"):
        content[0] = (HERE.parent / f"{docname.upper()}.md").read_text().replace("](docs/", "](")
    content[0] = OUTSIDE.sub(lambda found: f"](/{found[1].lower()}.md", content[0])
    content[0] = NOTES.sub(r"\1 (`docs/\2`)", content[0])
    if docname == "command-line":
        content[0] = COMMAND.sub(lambda found: found[0] + options_of(found[1]), content[0])
    if docname == "reference":
        lists = "\n".join((HERE / f"{page}.md").read_text() for page in ("index", "guide", "reference", "developer"))
        names = {path.stem for path in HERE.glob("*.md")} - set(NAMED.findall(lists)) - {"index"}
        content[0] = content[0].replace("% further pages", "\n".join(sorted(names)))


PROTOCOLS = {
    "Losses, rules, policies and backends of your own": (
        "losses.base.Loss", "algorithms.updates.base.Rule", "algorithms.updates.base.Parts",
        "algorithms.weights.Policy",
        "backends.base.Ask", "backends.base.Sweep", "backends.base.Data", "backends.base.Space",
    ),
    "What a fit and `discover` return": (
        "algorithms.result.Trace", "algorithms.result.Progress", "discovery.found.Discovery",
    ),
    "Data to try it on": ("synthetic.synthetic",),
    "In the place of scikit-learn": ("sklearn.NMF", "sklearn.non_negative_factorization", "accelerate.swapped"),
}  # fmt: skip


def write_api() -> None:
    """List every public name of the package, whatever it has by now, and the protocols that extensions implement."""
    groups: dict[str, list[str]] = {"Estimators": [], "Losses": [], "Functions": []}
    for name in sorted(drnmf.__all__, key=str.lower):
        value = getattr(drnmf, name)
        kind = "Functions" if not inspect.isclass(value) else "Estimators" if hasattr(value, "fit") else "Losses"
        groups[kind].append(f"drnmf.{name}")
    groups |= {title: [f"drnmf.{name}" for name in names] for title, names in PROTOCOLS.items()}
    lines = ["API reference", "=============", ""]
    for title, names in groups.items():
        lines += [title, "-" * len(title), "", ".. autosummary::", "   :toctree: .", ""]
        lines += [f"   {name}" for name in names] + [""]
    folder = HERE / "api" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join(lines)
    if not (folder / "index.rst").exists() or (folder / "index.rst").read_text() != text:
        (folder / "index.rst").write_text(text)


UNDERSCORE = re.compile(r"(?<![`\w\\:])(\w+)_(?![\w`\\{(^])")


def plain_names(app: object, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Keep names that end in an underscore, and bars, as they are: reStructuredText would take them for references."""
    for i, line in enumerate(lines):
        if ">>>" not in line and "..." not in line and "``" not in line:
            line = UNDERSCORE.sub(r"\1\\_", line).replace("|Omega|", r"\|Omega\|")
            lines[i] = line.replace("(*arguments)", r"(\*arguments)")


ITEM = re.compile(r"^([\w*][\w*, ]*?) : (.+)$")


def described(app: object, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Let numpydoc see a description where an item has "name : description" over several lines, and no type."""
    for i, line in enumerate(lines):
        item, following = ITEM.match(line), lines[i + 1] if i + 1 < len(lines) else ""
        goes_on = following.startswith("    ") and not following.strip()[0].isupper()
        long = item is not None and (goes_on or len(item[2].split()) > 5) and not following.strip()[:1].isupper()
        if item is not None and long:
            lines[i : i + 1] = [item[1], "    " + item[2]]


write_api()  # before Sphinx looks for pages


def setup(app) -> None:
    app.connect("source-read", adapt)
    app.connect("autodoc-process-docstring", described, priority=100)  # before numpydoc
    app.connect("autodoc-process-docstring", plain_names, priority=900)  # after numpydoc
