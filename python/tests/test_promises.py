"""SECURITY.md: each promise has tests, and these exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows() -> list[list[str]]:
    """Returns the table, without its header."""
    lines = [line for line in section("Promises and their tests").splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def promised() -> set[str]:
    return {text.rstrip(".") for text in re.findall(r"^- \*\*(.+?)\*\*", section("Promised"), re.MULTILINE)}


def named() -> list[tuple[str, str]]:
    """Returns files and functions; `::name` refers to the preceding file."""
    found: list[tuple[str, str]] = []
    for *_, tests in rows():
        file = ""
        for text in re.findall(r"`([\w./]*::\w+)`", tests):
            before, _, name = text.partition("::")
            file = before or file
            found.append((file, name))
    return found


def test_each_promise_has_a_row_and_each_row_a_promise() -> None:
    assert len(promised()) >= 16
    assert {row[0] for row in rows()} - {"In depth"} == promised()
    assert all(len(row) == 3 and "::" in row[2] for row in rows())


def test_each_test_that_is_named_is_there() -> None:
    known: dict[str, list[str]] = {}
    for pattern in ("python/tests/**/test_*.py", "crates/**/*.rs", "gpu/**/*.rs", "plugins/**/*.rs"):
        for path in ROOT.glob(pattern):
            known.setdefault(path.name, []).append(path.as_posix())
    assert len(named()) > 60
    for file, name in named():
        places = [place for place in known.get(Path(file).name, []) if place.endswith("/" + file)]
        texts = [Path(place).read_text(encoding="utf-8") for place in places]
        word = "def" if file.endswith(".py") else "fn"
        assert any(re.search(rf"\b{word} {name}\b", text) for text in texts), f"{file}::{name}"
