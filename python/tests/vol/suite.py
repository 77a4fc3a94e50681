"""Runs h5py's own tests natively and through the VOL connector, file by file, and compares the outcome of every test.

`python python/tests/vol/suite.py pass` passes everything through, `… store` makes every new file a sharded store,
`… seen` only has the connector on the plugin path, and `… env` only what `hyperchunk env` puts there.
Tests that may end otherwise than natively are in `expected.json`, each with a reason; any other difference fails.
`--file NAME` limits the run, `--table PAGE` writes the result into a page of the docs."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import h5py
import hyperchunk

HERE = Path(__file__).resolve().parent
CONNECTORS = {"pass": "hyperchunk", "store": "hyperchunk store"}
BEGIN, END = "<!-- vol {mode}: begin -->", "<!-- vol {mode}: end -->"
# h5py's tests require this fixture of pytest-mpi.
WITHOUT_MPI = """
import pytest

@pytest.fixture
def mpi_file_name():
    pytest.skip("h5py was built without MPI")
"""
Outcomes = dict[str, str]


def files() -> list[str]:
    """Returns the test files of h5py's wheel, relative to their folder."""
    folder = Path(h5py.__file__).parent / "tests"
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("test_*.py"))


def environment(mode: str, plugins: Path) -> dict[str, str]:
    """Returns the environment of a mode."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("HDF5_", "HYPERCHUNK_"))}
    if mode != "native":
        folders = [plugins] if mode == "env" else [plugins, plugins.with_name("connector")]
        env["HDF5_PLUGIN_PATH"] = ":".join(map(str, folders))
    if mode in CONNECTORS:
        env["HDF5_VOL_CONNECTOR"] = CONNECTORS[mode]
    return env


def run(name: str, mode: str, plugins: Path, timeout: int = 600) -> Outcomes:
    """Runs a file in a separate process; returns the outcome of each test, or a single outcome if it crashes."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        report, settings = folder / "report.xml", folder / "pytest.ini"
        settings.write_text("[pytest]\n", encoding="utf-8")
        (folder / "without_mpi.py").write_text(WITHOUT_MPI, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "without_mpi", f"--junitxml={report}"]
        command += [str(Path(h5py.__file__).parent / "tests" / name)]
        # Some tests start pytest again, which must not find the settings of this project.
        more = f"-c {settings} --rootdir={folder} -p no:cacheprovider"
        env = environment(mode, plugins) | {"TMPDIR": text, "PYTHONPATH": text, "PYTEST_ADDOPTS": more}
        try:
            done = subprocess.run(
                command, env=env, cwd=folder, check=False, capture_output=True, text=True, timeout=timeout
            )
        except subprocess.TimeoutExpired:
            return {f"{name}::": "timed out"}
        if done.returncode < 0 or not report.exists():
            return {f"{name}::": f"crashed ({done.returncode})"}
        return outcomes(name, ElementTree.parse(report).getroot())


def outcomes(name: str, report: ElementTree.Element) -> Outcomes:
    """Returns the outcomes in pytest's report."""
    found: Outcomes = {}
    for case in report.iter("testcase"):
        owner = case.get("classname", "").split(".")[-1]
        owner = "" if owner.startswith("test_") else f"{owner}::"
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        key = f"{name}::{owner}{case.get('name')}"
        found[key] = "failed" if found.get(key) == "failed" else outcome
        if os.environ.get("SHOW") and outcome == "failed":
            for child in case:
                print(key, (child.get("message") or "")[:300].replace("\n", " "))
    return found


def difference(native: Outcomes, ours: Outcomes, expected: list[dict[str, str]]) -> tuple[list[str], list[str]]:
    """Returns tests that end otherwise than natively: unexpected ones, and expected ones."""
    surprising, known = [], []
    for test in sorted(native.keys() | ours.keys()):
        before, after = native.get(test, "not run"), ours.get(test, "not run")
        if before == after:
            continue
        reason = next((entry["reason"] for entry in expected if re.search(entry["test"], test)), None)
        if reason is None:
            surprising.append(f"{test}: {before} natively, {after} through the connector")
        else:
            known.append(f"{test}\t{reason}")
    return surprising, known


def counted(found: Outcomes) -> str:
    """Returns the sums of outcomes as text."""
    sums = Counter(found.values())
    words = [f"{sums.pop(kind, 0)} {kind}" for kind in ("passed", "failed", "skipped")]
    return ", ".join(words + [f"{count} {kind}" for kind, count in sums.items()])


def table(mode: str, native: Outcomes, ours: Outcomes, known: list[str]) -> str:
    """Formats the results as Markdown."""
    lines = [
        f"Natively: {counted(native)}. **Through the connector: {counted(ours)}.**",
        "",
    ]
    if known:
        lines += ["| tests | why they end otherwise than natively |", "|---|---|"]
        reasons = Counter(line.partition("\t")[2] for line in known)
        lines += [f"| {count} | {reason} |" for reason, count in reasons.most_common()]
    else:
        lines.append("No test ends otherwise than natively.")
    return "\n".join([BEGIN.format(mode=mode), *lines, END.format(mode=mode)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=[*CONNECTORS, "seen", "env"])
    parser.add_argument("--plugins", type=Path, default=hyperchunk.plugins.folder())
    parser.add_argument("--file", action="append", help="only this test file; may be given again")
    parser.add_argument("--table", type=Path, help="the page of the docs to write the result into")
    parser.add_argument("--native", type=Path, help="where native outcomes are kept from run to run")
    options = parser.parse_args()
    expected = json.loads((HERE / "expected.json").read_text(encoding="utf-8")).get(options.mode, [])
    kept: dict[str, Outcomes] = {}
    if options.native and options.native.exists():
        kept = json.loads(options.native.read_text(encoding="utf-8"))
    native: Outcomes = {}
    ours: Outcomes = {}
    for name in options.file or files():
        kept[name] = kept.get(name) or run(name, "native", options.plugins)
        native |= kept[name]
        here = run(name, options.mode, options.plugins)
        ours |= here
        surprising, _ = difference(kept[name], here, expected)
        print(f"{name}: {counted(here)}{''.join(f'{chr(10)}  {line}' for line in surprising)}", flush=True)
    if options.native:
        options.native.write_text(json.dumps(kept), encoding="utf-8")
    surprising, known = difference(native, ours, expected)
    print(f"natively: {counted(native)}\n{options.mode}: {counted(ours)}; {len(known)} known differences")
    if options.table:
        page = options.table.read_text(encoding="utf-8")
        begin, end = BEGIN.format(mode=options.mode), END.format(mode=options.mode)
        head, _, rest = page.partition(begin)
        options.table.write_text(head + table(options.mode, native, ours, known) + rest.partition(end)[2], "utf-8")
    sys.exit(f"{len(surprising)} tests end otherwise than expected" if surprising else 0)


if __name__ == "__main__":
    main()
