"""The page with the list of attacks names existing tests."""

import re
from pathlib import Path

from hostile import cases, damage, scenarios

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "attacks.md"


def names() -> set[str]:
    """Returns cases, damages and scenarios, and the tests of the sandbox's own suite."""
    found = {*cases.PYTHON, *cases.LUA, *cases.CPP, *scenarios.SCENARIOS, *(d.name for d in damage.ALL)}
    sandbox = ROOT / "crates" / "hyperchunk-sandbox" / "src" / "linux" / "tests"
    for file in sandbox.glob("*.rs"):
        text = file.read_text()
        found |= {*re.findall(r"fn (\w+)", text), *re.findall(r'add\("([\w-]+)"', text)}
    for file in (ROOT / "python" / "tests").glob("test_*.py"):
        found |= set(re.findall(r"def (test_\w+)", file.read_text()))
    return found


def is_there(text: str, known: set[str]) -> bool:
    """True if a word of the page is a test; `…` and `*` stand for the rest of a name."""
    if text.endswith((".py", ".rs")):
        return any(path.as_posix().endswith("/" + text) for path in ROOT.glob("*/**/" + Path(text).name))
    pattern = re.compile(re.escape(text).replace("…", ".*").replace(r"\*", ".*") + "$")
    return any(pattern.match(name) for name in known)


def test_every_name_on_the_page_is_a_test() -> None:
    rows = re.findall(r"^\| (\d+)(?:(?:, | to )(\d+))? \| .*? \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    covered = [n for first, last, _ in rows for n in range(int(first), int(last or first) + 1)]
    assert covered == list(range(1, 81))
    known = names()
    for first, _, tests in rows:
        words = [w for w in re.findall(r"`([^`]+)`", tests) if w != "SECURITY.md"]
        assert words or first == "77", f"item {first} names no test"
        for word in words:
            assert is_there(word, known), f"item {first}: there is no {word}"
