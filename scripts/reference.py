"""What the reference of the manual makes of docstrings: their examples become code blocks. Used by `mkdocs.yml`."""

import re
from typing import Any

import griffe

__all__ = ["ExamplesAsCode", "fenced"]

EXAMPLE = re.compile(r"^( *)>>> .*(?:\n(?!\s*$).*)*", re.M)


def fenced(text: str) -> str:
    """The text with a fence around each example, from its first `>>>` to the next empty line.

    >>> fenced("Twice x.\\n\\n>>> 2 * 2\\n4\\n\\nMore.")
    'Twice x.\\n\\n```pycon\\n>>> 2 * 2\\n4\\n```\\n\\nMore.'
    """
    return EXAMPLE.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)


class ExamplesAsCode(griffe.Extension):
    """Called by griffe for each thing that it has read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the examples of a docstring."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
