"""How Sphinx makes the site. scripts/site.py puts the sources together."""

import re

project = "Heddle"
author = "the Heddle authors"
copyright = author
html_title = "Heddle"
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["heddle.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#8c3a0c", "color-brand-content": "#a8480f"},
    "dark_css_variables": {"color-brand-primary": "#f2b58b", "color-brand-content": "#f2b58b"},
}
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton", "sphinx_design"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # scripts/site.py has run them
autodoc_member_order = "alphabetical"
python_use_unqualified_type_names = True
add_module_names = False
copybutton_prompt_text = ">>> |\\.\\.\\. "
copybutton_prompt_is_regexp = True
highlight_language = "none"
suppress_warnings = ["myst.header"]  # the logs of measurements begin at the third level


def _marked(text):
    """A line of plain words as reStructuredText: `code` is code, and nothing else has a meaning."""
    parts = re.split(r"(`[^`]+`)", text)
    for i, part in enumerate(parts):
        parts[i] = f"`{part}`" if i % 2 else re.sub(r"([*|_])", r"\\\1", part)
    return "".join(parts)


def _described(app, what, name, thing, options, lines):
    """Docstrings are plain text with doctests in between. Operators begin theirs with a signature, which is shown above."""
    if type(thing).__module__ == "heddle" and lines and "(" in lines[0]:
        del lines[:2]
    example, shown = False, []
    for line in lines:
        begins = line.lstrip().startswith(">>>")
        if begins and not example and shown and shown[-1].strip():
            shown.append("")
        example = begins or (example and bool(line.strip()))
        shown.append(line if example else _marked(line))
    lines[:] = shown


def _called(app, what, name, thing, options, signature, returned):
    """Methods of the tables of operators without the tensor itself."""
    if what == "method" and type(thing).__module__ == "heddle" and signature:
        return re.sub(r"^\(\w+(, )?", "(", signature), returned
    return None


def setup(app):
    app.connect("autodoc-process-signature", _called)
    app.connect("autodoc-process-docstring", _described)
