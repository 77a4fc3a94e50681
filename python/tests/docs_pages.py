"""Snippets of the pages, and the comments that say how to run them.

A snippet is a block of ``python``, ``sh`` or ``js`` (run by Node with the npm package of this checkout). HTML comments
directly above it, invisible to readers, are its marks:

    <!-- needs: scene.h5; a signing key -->    inputs, made by ``docs_inputs.py`` or by a ``file`` of the page
    <!-- file: ndvi.lua -->                    the block below, in any language, is that file
    <!-- then: hyperchunk dump scene.h5 -->    a command that runs in the same folder afterwards
    <!-- continues -->                         the snippet goes on with the names of the one above it
    <!-- follows -->                           the snippet is a program of its own, after the one above it
    <!-- not run: needs a cluster -->          the snippet cannot run in a test, and the reason
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Pages whose snippets run. Results and formats have none: their commands measure, for minutes.
PAGES = (
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *(page for folder in ("guide", "how-to", "reference") for page in sorted((ROOT / "docs" / folder).glob("*.md"))),
)
LANGUAGES = ("python", "sh", "js")
KINDS = ("needs", "file", "then", "continues", "follows", "not run")

BLOCK = re.compile(r"((?:^<!--[^\n]*-->\n+)*)^(`{3,})(\w*)[^\n]*\n(.*?)^\2$", re.DOTALL | re.MULTILINE)
MARK = re.compile(r"<!-- *([a-z ]+?)(?:: *(.*?))? *-->")


@dataclass(frozen=True)
class Snippet:
    """A block of code in a page."""

    page: str
    line: int
    language: str
    text: str
    needs: tuple[str, ...]
    file: str | None
    then: tuple[str, ...]
    not_run: str | None
    #: The snippet that this one continues or follows: the last one above that runs.
    before: Snippet | None
    #: It goes on with the names of that snippet.
    continues: bool

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def chain(self) -> list[Snippet]:
        """Returns the snippets that run in one folder: those before this one, then itself."""
        return [*(self.before.chain() if self.before else []), self]


def ends(found: list[Snippet]) -> list[Snippet]:
    """Returns the snippets that no other one continues or follows: their chains hold all that run."""
    earlier = {id(one.before) for one in found}
    return [one for one in found if one.not_run is None and id(one) not in earlier]


def snippets(page: Path) -> tuple[list[Snippet], dict[str, str]]:
    """Returns the snippets of a page, and its files by name."""
    text, name = page.read_text(encoding="utf-8"), str(page.relative_to(ROOT))
    found, files = list[Snippet](), dict[str, str]()
    for block in BLOCK.finditer(text):
        line = text[: block.start(2)].count("\n") + 1
        marks = dict[str, list[str]]()
        for kind, value in MARK.findall(block[1]):
            if kind not in KINDS:
                raise ValueError(f"{name}:{line}: unknown mark {kind!r}: expected one of {', '.join(KINDS)}")
            marks.setdefault(kind, []).append(value)
        file = marks.get("file", [None])[0]
        if file is not None:
            files[file] = block[4]
        if block[3] in LANGUAGES:
            linked = "continues" in marks or "follows" in marks
            if linked and all(one.not_run is not None for one in found):
                raise ValueError(f"{name}:{line}: no snippet is above this one")
            found.append(
                Snippet(
                    name,
                    line,
                    block[3],
                    block[4],
                    tuple(need.strip() for value in marks.get("needs", []) for need in value.split(";")),
                    file,
                    tuple(marks.get("then", [])),
                    marks["not run"][0] if "not run" in marks else None,
                    next(one for one in reversed(found) if one.not_run is None) if linked else None,
                    "continues" in marks,
                )
            )
    return found, files
