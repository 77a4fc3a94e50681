"""Check of dependencies against RustSec's advisories, as run by `make lint` without a network."""

import json
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
pytestmark = pytest.mark.skipif(not TOOLS.exists(), reason="not in a checkout")


@pytest.fixture
def advisories(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import advisories

    return advisories


@pytest.mark.parametrize(
    ("version", "requirement", "met"),
    [
        ("0.29.0", ">= 0.29.0", True),
        ("0.28.9", ">= 0.29.0", False),
        ("0.29.0-rc.1", ">= 0.29.0", False),
        ("0.29.0+build", ">= 0.29.0", True),
        ("1.2.3", "^1.2", True),
        ("2.0.0", "^1.2", False),
        ("0.2.9", "^0.2.3", True),
        ("0.3.0", "^0.2.3", False),
        ("0.0.4", "^0.0.3", False),
        ("1.2.9", "~1.2.3", True),
        ("1.3.0", "~1.2.3", False),
        ("1.5.0", ">= 1.2, < 1.5", False),
        ("1.10.0", "> 1.9", True),
        ("1.0.0", "= 1.0.0", True),
        ("1.0.1", "1.0.0", True),
    ],
)
def test_version_meets_a_requirement_as_in_cargo(advisories, version, requirement, met):
    assert advisories.meets(version, requirement) == met


def test_unreadable_requirement_is_an_error(advisories):
    with pytest.raises(ValueError, match="version requirement"):
        advisories.meets("1.0.0", "latest")


def test_pyo3_before_its_mended_version_is_found(advisories):
    known = json.loads(advisories.LIST.read_text())
    errors, _ = advisories.findings(known, {"Cargo.lock": {("pyo3", "0.27.2")}})
    assert {line.split(": ")[2] for line in errors} >= {"RUSTSEC-2026-0176", "RUSTSEC-2026-0177"}
    assert advisories.findings(known, {"Cargo.lock": {("pyo3", "0.29.0")}}) == ([], [])


def test_crate_that_the_list_does_not_know_is_an_error(advisories):
    known = json.loads(advisories.LIST.read_text())
    errors, _ = advisories.findings(known, {"Cargo.lock": {("a-new-crate", "1.0.0")}})
    assert "--refresh" in errors[0]


def test_unmaintained_crates_are_notes(advisories):
    about = {"id": "RUSTSEC-1", "kind": "unmaintained", "title": "t", "patched": [], "unaffected": []}
    known = {"crates": ["old"], "advisories": {"old": [about]}}
    errors, notes = advisories.findings(known, {"Cargo.lock": {("old", "1.0.0")}})
    assert not errors
    assert "RUSTSEC-1" in notes[0]


def test_advisory_as_the_database_has_it(advisories):
    text = (
        '```toml\n[advisory]\nid = "RUSTSEC-2026-1"\npackage = "p"\ndate = "2026-01-02"\n{}'
        '[versions]\npatched = [">= 1.2"]\n```\n\n# It is wrong\n\nMore.\n'
    )
    found = advisories.advisory(text.format(""))
    assert found == {
        "id": "RUSTSEC-2026-1",
        "date": "2026-01-02",
        "kind": "vulnerability",
        "title": "It is wrong",
        "patched": [">= 1.2"],
        "unaffected": [],
    }
    assert advisories.advisory(text.format('withdrawn = "2026-02-03"\n')) is None


def test_this_checkout_has_none(advisories):
    errors, _ = advisories.findings(json.loads(advisories.LIST.read_text()), advisories.locked())
    assert not errors
