"""Measures how plain the prose of the tree is, and fails if a rate is above a limit.

    python tools/prose.py [PATH...]    one row for each path; without paths, those that lint checks

Reads comments of Rust and Python, docstrings, and Markdown without its code. Habits are counted per 10,000 words. The
limits are above the rates of well-kept Rust projects. A low rate does not prove plain prose: see STYLE.md.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "ARCHITECTURE.md", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md", "STYLE.md")
CRATE_FOLDERS = ("crates", "gpu", "plugins")
CRATES = tuple(
    str(path.parent.relative_to(ROOT))
    for folder in CRATE_FOLDERS
    for path in sorted((ROOT / folder).glob("*/Cargo.toml"))
)
PATHS = (*CRATES, "python", "bench", "examples", "tools", "docs", *PAGES)
#: Width of the column of paths.
PATH_COLUMNS = 1 + max(len(path) for path in PATHS)
#: Paths with fewer words are shown, but never fail: a single word would decide.
FEW_WORDS = 2000
#: Habits, and the maximum number of each per 10,000 words.
HABITS = {
    "what is": (r"what (?:is|was|are|were|it|they|has|have|lies|comes|cannot|does|nobody|somebody|a|the)", 8.0),
    "nobody": (r"(?:some|no|any|every)body|whoever|whom", 2.0),
    "so many": (r"so (?:many|much|long|often|far)", 2.0),
    "lies": (r"lies?|lay|lain|lying", 2.0),
    "behind": (r"behind", 2.0),
    "anew": (r"anew", 0.5),
    "that of": (r"(?:that|those) of|those that|that which|(?:is|are) none", 8.0),
}
PATTERNS = {name: re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE) for name, (pattern, _) in HABITS.items()}
#: First words that hide the subject, and the maximum number of them per 100 doc comments.
OPENERS = frozenset(
    {"what", "which", "where", "who", "whoever", "whether", "how", "whom", "whose", "when", "why"}
    | {"it", "they", "so", "those", "these", "nothing", "nobody"}
)
MOST_OPENERS = 4.0


def rust_comments(text: str) -> Iterator[tuple[bool, str]]:
    """Yields blocks of line comments, and whether each is documentation."""
    marker, lines = "", list[str]()
    for line in [*text.splitlines(), ""]:
        found = re.match(r"\s*(///|//!|//) ?(.*)", line)
        if found is None or found[1] != marker:
            if lines:
                yield marker != "//", " ".join(lines)
            marker, lines = found[1] if found else "", []
        if found:
            lines.append(found[2])


def python_comments(text: str) -> Iterator[tuple[bool, str]]:
    """Yields docstrings and comments, and whether each is documentation."""
    documented = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and (doc := ast.get_docstring(node)):
            yield True, doc
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield False, token.string.lstrip("#: ")


def markdown_text(text: str) -> Iterator[tuple[bool, str]]:
    """Yields the text of a page without code and the targets of links."""
    text = re.sub(r"^( *)(```+).*?^\1\2", " ", text, flags=re.DOTALL | re.MULTILINE)
    yield False, re.sub(r"`[^`]*`|\]\([^)]*\)", " ", text)


READERS = {".rs": rust_comments, ".py": python_comments, ".md": markdown_text}


def list_files(path: Path) -> Iterator[Path]:
    """Yields the files below a path that git tracks or would track."""
    if path.is_file():
        yield path
        return
    left_out = {"target", "site", "node_modules", "__pycache__"}
    for found in sorted(path.rglob("*")):
        inside = found.relative_to(path).parts
        if found.suffix in READERS and not any(part in left_out or part.startswith(".") for part in inside):
            yield found


def measure(path: Path) -> tuple[int, dict[str, float]]:
    """Returns the number of words of a path and the rate of each habit."""
    words, documented, opened, habits = 0, 0, 0, Counter[str]()
    for file in list_files(path):
        for is_documentation, text in READERS[file.suffix](file.read_text(encoding="utf-8")):
            all_words = text.split()
            words += len(all_words)
            if is_documentation and all_words:
                documented += 1
                opened += all_words[0].lower().strip("`[]*():") in OPENERS
            joined = " ".join(all_words)
            habits.update({name: len(pattern.findall(joined)) for name, pattern in PATTERNS.items()})
    rates = {"opener %": 100 * opened / max(1, documented)}
    return words, rates | {name: 10_000 * habits[name] / max(1, words) for name in HABITS}


def main(arguments: list[str]) -> int:
    """Prints a table; returns 1 if a path is above a limit."""
    limits = {"opener %": MOST_OPENERS} | {name: limit for name, (_, limit) in HABITS.items()}
    print(f"{'':{PATH_COLUMNS}}{'words':>8}" + "".join(f"{name:>10}" for name in limits))
    print(f"{'limit':{PATH_COLUMNS}}{'':>8}" + "".join(f"{limit:>10.1f}" for limit in limits.values()))
    failed = False
    for name in arguments or PATHS:
        path = ROOT / name
        if not path.exists():
            continue
        words, rates = measure(path)
        over = [habit for habit, limit in limits.items() if rates[habit] > limit]
        failed |= bool(over) and words > FEW_WORDS
        row = f"{name:{PATH_COLUMNS}}{words:>8}" + "".join(f"{rates[habit]:>10.1f}" for habit in limits)
        print(row + (f"  over: {', '.join(over)}; see STYLE.md" if over else ""))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
