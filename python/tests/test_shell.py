"""The files around the code agree: workflows, versions, accepted licences. The crates: test_packages.py."""

import itertools
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
pytestmark = pytest.mark.skipif(not (ROOT / "Makefile").exists(), reason="not in a checkout")


def parsed(path: Path) -> dict:
    """Returns the contents of a TOML or YAML file."""
    text = path.read_text(encoding="utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)


def make_targets() -> set[str]:
    """Returns the names of the targets of the Makefile."""
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def steps(workflow: dict) -> list[dict]:
    """Returns the steps of all jobs of a workflow."""
    return [step for job in workflow["jobs"].values() for step in job.get("steps", [])]


def commands(workflow: dict) -> list[str]:
    """Returns the commands of a workflow, once for each value of the matrix variables in them."""
    found = []
    for job in workflow["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {})
        values = [dict(zip(matrix, row, strict=True)) for row in itertools.product(*matrix.values())]
        for step in job.get("steps", []):
            for value in values:
                replace = lambda name, value=value: str(value[name[1]])  # noqa: E731
                found.append(re.sub(r"\$\{\{ matrix\.(\w+) \}\}", replace, step.get("run", "")))
    return found


CRATE_FOLDERS = ("crates", "gpu", "plugins")


def crates() -> dict[str, dict]:
    """Returns the manifests of the workspace's crates by name."""
    found = (parsed(path) for folder in CRATE_FOLDERS for path in sorted((ROOT / folder).glob("*/Cargo.toml")))
    return {manifest["package"]["name"]: manifest for manifest in found}


PUBLISHED = [name for name, manifest in crates().items() if manifest["package"].get("publish") is not False]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_calls_what_exists(path):
    """Commands of a workflow are targets of the Makefile and files of tools/."""
    for command in commands(parsed(path)):
        for target in re.findall(r"\bmake ([\w-]+)", command):
            assert target in make_targets()
        for script in re.findall(r"\btools/[\w./-]+", command):
            assert (ROOT / script).is_file()
        assert not re.search(r"\b(?:cargo|pytest|mypy|ruff|hatchling) ", command), "belongs into the Makefile"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_has_few_rights(path):
    """A workflow reads the repository and no more, except in named jobs; actions are pinned by commit."""
    workflow = parsed(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert "concurrency" in workflow
    assert not re.search(r"run: .*\$\{\{ *github\.(?:head_ref|event\.)", path.read_text()), "foreign text"
    for step in steps(workflow):
        if "uses" in step:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"]), step["uses"]
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_form_is_complete(path):
    """Forms have the keys that GitHub requires, and distinct fields."""
    form = parsed(path)
    if path.stem == "config":
        assert all(set(link) == {"name", "url", "about"} for link in form["contact_links"])
        return
    assert form["name"]
    assert form["description"]
    names = [field["id"] for field in form["body"]]
    assert len(names) == len(set(names))
    assert all(field["attributes"]["label"] for field in form["body"])


def test_hooks_call_what_exists():
    """Hooks of pre-commit name files of tools/ that are there."""
    hooks = parsed(ROOT / ".pre-commit-config.yaml")["repos"][0]["hooks"]
    assert {"rustfmt", "ruff-check", "ruff-format", "tidy", "prose"} == {hook["id"] for hook in hooks}
    for hook in hooks:
        assert all((ROOT / script).is_file() for script in re.findall(r"\btools/[\w./-]+", hook["entry"]))


def test_versions_agree():
    """The crates, the package, the citation and the lock files have one version."""
    workspace = parsed(ROOT / "Cargo.toml")["workspace"]
    version = workspace["package"]["version"]
    hatch = parsed(ROOT / "pyproject.toml")["tool"]["hatch"]["version"]
    assert re.search(hatch["pattern"], (ROOT / hatch["path"]).read_text())["version"] == version
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
    for name, wanted in workspace["dependencies"].items():
        if "path" in wanted:
            assert wanted.get("version") == (version if name in PUBLISHED else None), name
    for lock in ("Cargo.lock", "fuzz/Cargo.lock", "bench/rivals/Cargo.lock"):
        packages = tomllib.loads((ROOT / lock).read_text())["package"]
        ours = {package["version"] for package in packages if package["name"] in PUBLISHED}
        assert ours == {version}, lock


def test_oldest_rust_agrees():
    """The oldest Rust is the same in manifests, workflows, messages and pages."""
    oldest = parsed(ROOT / "Cargo.toml")["workspace"]["package"]["rust-version"]
    assert parsed(ROOT / ".github/workflows/ci.yml")["jobs"]["oldest-rust"]["env"]["RUSTUP_TOOLCHAIN"] == oldest
    assert parsed(ROOT / "fuzz/Cargo.toml")["package"]["rust-version"] == oldest
    for path in ("README.md", "tools/native.py"):
        assert f"Rust {oldest} or newer" in (ROOT / path).read_text()


def test_actionlint_is_not_needed(monkeypatch, tmp_path, capsys):
    """Without the program and without Go, lint says that workflows are not checked by it, and goes on."""
    import actionlint

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(actionlint.shutil, "which", lambda name, path=None: None)
    assert actionlint.find() is None
    assert capsys.readouterr().out.startswith("actionlint: the workflows are not checked: neither")


def test_actionlint_that_cannot_be_built_is_named(monkeypatch, tmp_path, capsys):
    """A build that fails, for want of a network, is one line with Go's message."""
    import actionlint

    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho 'dial tcp: no route to host' >&2\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(actionlint.shutil, "which", lambda name, path=None: str(go) if name == "go" else None)
    assert actionlint.find() is None
    assert "dial tcp: no route to host" in capsys.readouterr().out
    assert not (tmp_path / "hyperchunk" / f"go-actionlint-{actionlint.VERSION}" / "actionlint").exists()


def test_cargo_deny_agrees_with_our_lists():
    """cargo-deny accepts and refuses what `make lint` does."""
    import advisories
    import licences

    deny = parsed(ROOT / "deny.toml")
    assert set(deny["licenses"]["allow"]) == licences.ALLOWED
    assert set(deny["bans"]["deny"]) == licences.BANNED
    assert set(deny["advisories"]["ignore"]) == set(advisories.ACCEPTED)
    assert not any(word in name for name in licences.ALLOWED for word in ("GPL", "MPL", "SSPL"))


def test_citation_is_complete():
    """CITATION.cff has the keys that its schema requires."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["cff-version"] == "1.2.0"
    assert " OR ".join(citation["license"]) == parsed(ROOT / "pyproject.toml")["project"]["license"]
