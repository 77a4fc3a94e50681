"""The crates for crates.io: `tools/packages.py` accepts ours, and names what is missing in others."""

import copy
import graphlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "Makefile").exists(), reason="not in a checkout")

if (ROOT / "Makefile").exists():
    import packages


@pytest.fixture(scope="module")
def ours():
    return packages.workspace()


@pytest.fixture
def changed(ours):
    """What cargo knows of our crates, to be changed by a test."""
    return copy.deepcopy(ours)


def test_published_crates_are_complete(ours):
    assert packages.problems(ours) == []
    public = packages.published(ours)
    assert {"hyperchunk", "hyperchunk-format", "hyperchunk-cli"} <= set(public)
    assert not {"hyperchunk-python", "hyperchunk-cuda-fake", "hyperchunk-s3proxy"} & set(public)
    assert [line for package in public.values() for line in packages.file_problems(package)] == []


def test_order_has_each_crate_after_those_that_it_uses(ours):
    order = packages.order(ours)
    assert sorted(order) == sorted(packages.published(ours))
    for place, name in enumerate(order):
        used = {dependency["name"] for dependency in packages.used(ours[name])}
        assert used <= set(order[:place]), name
    assert order.index("hyperchunk-format") < order.index("hyperchunk") < order.index("hyperchunk-store")


@pytest.mark.parametrize(
    ("field", "value", "line"),
    [
        ("description", None, "no description"),
        ("documentation", "https://example.com", "documentation: expected https://docs.rs/hyperchunk"),
        ("keywords", ["one", "two", "three", "four", "five", "six"], "keywords: expected 1 to 5, got 6"),
        ("keywords", ["two words"], "keyword 'two words'"),
        ("categories", [], "categories: expected 1 to 5, got 0"),
    ],
)
def test_incomplete_page_is_named(changed, field, value, line):
    changed["hyperchunk"][field] = value
    (problem,) = packages.problems(changed)
    assert problem.startswith(f"hyperchunk: {line}")


def test_field_that_a_crate_sets_itself_is_named(changed, tmp_path):
    manifest = Path(changed["hyperchunk-net"]["manifest_path"]).read_text()
    other = tmp_path / "Cargo.toml"
    other.write_text(manifest.replace("\nlicense.workspace = true\n", '\nlicense = "MIT"\n'))
    changed["hyperchunk-net"]["manifest_path"] = str(other)
    (problem,) = packages.problems(changed)
    assert problem == "hyperchunk-net: expected `license.workspace = true`, so that all crates agree"


def test_use_of_a_crate_that_is_not_published_is_named(changed):
    changed["hyperchunk-net"]["publish"] = []
    found = packages.problems(changed)
    assert "hyperchunk: uses hyperchunk-net, which is not for crates.io" in found
    assert "hyperchunk-net: expected a comment above `publish = false` that says why" in found


def test_use_without_a_version_is_named(changed):
    (net,) = (
        dependency for dependency in changed["hyperchunk"]["dependencies"] if dependency["name"] == "hyperchunk-net"
    )
    net["req"] = "*"
    assert packages.problems(changed) == ["hyperchunk: uses hyperchunk-net without a version"]


def test_circle_of_crates_is_named(changed):
    (net,) = (
        dependency for dependency in changed["hyperchunk"]["dependencies"] if dependency["name"] == "hyperchunk-net"
    )
    changed["hyperchunk-net"]["dependencies"].append(net | {"name": "hyperchunk"})
    with pytest.raises(graphlib.CycleError):
        packages.order(changed)
    (problem,) = packages.problems(changed)
    assert problem.startswith("cannot order the crates: ")
    assert "hyperchunk uses hyperchunk-net" in problem or "hyperchunk-net uses hyperchunk" in problem


def test_large_files_and_missing_licences_are_named(changed, monkeypatch):
    monkeypatch.setattr(packages, "MAX_FILE_BYTES", 10_000)
    monkeypatch.setattr(packages, "MAX_CRATE_BYTES", 15_000)
    monkeypatch.setattr(packages, "LICENCES", ("LICENSE-MIT", "CITATION.cff"))
    found = packages.file_problems(changed["hyperchunk-net"])
    assert "CITATION.cff: expected a copy of CITATION.cff of the root folder" in found
    assert any(line.startswith("LICENSE-APACHE: 11") and "expected at most 10000" in line for line in found)
    assert any(line.endswith("of files, expected at most 15000; leave some out by `exclude`") for line in found)
