"""Runs h5py's own tests, and those of libraries that use h5py, with h5py and with hyperchunk.h5py under its name, and
writes the tables of results:

    python python/tests/h5py_module/run.py docs/results/h5py.md --python VENV/bin/python --sources FOLDER

`--python` is an interpreter that has h5py, pytest, pytest-timeout and the libraries. `--sources` has their sources in
folders of their names, for those whose packages have no tests. `--reports FOLDER` keeps the outcomes; those that are
there are used again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
TIMEOUT_SECONDS = 60
_INTRODUCTION = (
    "The tests of h5py and of libraries that use it, unmodified, with `hyperchunk.h5py` installed as `h5py`: they read "
    "and write through Hyperchunk alone."
)
_METHODS = (
    "`python/tests/h5py_module/run.py` runs each suite twice in the same environment, with a limit of "
    f"{TIMEOUT_SECONDS} seconds for a test and without a network. A test counts if it passes with h5py; it is gained "
    "if it fails with h5py. `reasons.json` beside the script has the reasons. Frames: `HYPERCHUNK_FRAMES=200 pytest "
    "python/tests/frames`, in an environment for each version of pandas."
)
_OTHERS = (
    "The tests of pandas' `HDFStore` are not here: PyTables calls libhdf5 itself, and never imports h5py. Those of "
    "anndata that write Zarr are left out, and one of 363 slow combinations (`test_backed_raw_subset`). Its tests of "
    "awkward arrays and dispatch (72) ran on their own, without a difference."
)
_PROGRAMS = (
    "67 programs with common uses of h5py (text tables, logs that grow, masks, references, virtual datasets, links, "
    "dimension scales, SWMR, low-level calls and others) run with both; 66 print the same "
    "(`python/tests/test_h5py_module.py`). The other one uses each filter of hdf5plugin: chunks of ZFP and SZ3 are "
    "read, but not written."
)
_FRAMES = (
    (
        "Random frames and tables, written by their libraries and read through `hyperchunk.frames` as pandas frames, "
        "in DuckDB and in polars, are equal to what the library reads. 200 of each:"
    ),
    "",
    "| written by | differences |",
    "|---|---|",
    "| pandas 2.3.3, fixed format | 0 |",
    "| pandas 2.3.3, table format | 0 |",
    "| pandas 3.1.1, fixed format | 0 |",
    "| pandas 3.1.1, table format | 0 |",
    "| PyTables 3.11.1 | 0 |",
    "| anndata 0.12.19 (pandas 2) and 0.13.4 (pandas 3) | 0 |",
)
Report = dict[str, dict[str, str]]


class Suite(NamedTuple):
    """Tests of a library."""

    name: str
    #: Package whose version is shown.
    package: str
    #: Arguments of pytest; `{sources}` is the folder of sources.
    arguments: tuple[str, ...]


SUITES = (
    Suite("h5py", "h5py", ()),
    Suite("h5netcdf", "h5netcdf", ("--pyargs", "h5netcdf")),
    Suite("silx", "silx", ("--pyargs", "silx.io")),
    Suite("h5grove", "h5grove", ("{sources}/h5grove/src/tests",)),
    Suite("kerchunk", "kerchunk", ("{sources}/kerchunk/tests/test_hdf.py",)),
    Suite(
        "anndata",
        "anndata",
        (
            "-k",
            "not zarr and not test_backed_raw_subset",
            *(
                f"{{sources}}/anndata/tests/{name}.py"
                for name in (
                    "test_readwrite",
                    "test_io_elementwise",
                    "test_backed_hdf5",
                    "test_io_dispatched",
                    "test_io_utils",
                    "test_backed_sparse",
                )
            ),
        ),
    ),
    Suite(
        "xarray",
        "xarray",
        ("-k", "h5netcdf", "--pyargs", "xarray.tests.test_backends", "xarray.tests.test_backends_datatree"),
    ),
    Suite(
        "virtualizarr",
        "virtualizarr",
        tuple(
            f"{{sources}}/virtualizarr/virtualizarr/tests/{name}"
            for name in ("test_parsers/test_hdf", "test_integration.py", "test_xarray.py", "test_parallel.py")
        ),
    ),
)


def run(suite: Suite, stock: bool, python: str, sources: Path, folder: Path) -> Report:
    """Returns the outcome of each test of a suite."""
    report = folder / f"{suite.name}-{'stock' if stock else 'ours'}.json"
    if not report.exists():
        places = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
        environment = os.environ | {"HYPERCHUNK_REPORT": str(report), "PYTHONPATH": places}
        environment.pop("HYPERCHUNK_STOCK", None)
        if stock:
            environment["HYPERCHUNK_STOCK"] = "1"
        with tempfile.TemporaryDirectory() as name:
            where = Path(name)
            (where / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
            arguments = [argument.format(sources=sources) for argument in suite.arguments]
            if suite.name == "h5py":
                arguments = of_h5py(stock, python, where, environment)
            command = [python, "-m", "pytest", "-q", "-p", "as_h5py", "-p", "no:cacheprovider", "-c", "pytest.ini"]
            command += ["-m", "not network", "--timeout", str(TIMEOUT_SECONDS), "--tb=native", *arguments]
            subprocess.run(command, env=environment, cwd=where, check=False, stdout=subprocess.DEVNULL)
    found: Report = json.loads(report.read_text(encoding="utf-8"))
    return {name.rpartition("tests/")[2]: told for name, told in found.items()}


def of_h5py(stock: bool, python: str, where: Path, environment: dict[str, str]) -> list[str]:
    """Returns the arguments for h5py's own tests, which are in its package; a copy of them is a part of ours."""
    if stock:
        return ["--pyargs", "h5py.tests"]
    code = "import h5py.tests, pathlib; print(pathlib.Path(h5py.tests.__file__).parent)"
    plain = os.environ | {"HYPERCHUNK_STOCK": "1"}
    told = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, env=plain)
    package = where / "h5py"
    shutil.copytree(told.stdout.strip(), package / "tests")
    (package / "__init__.py").touch()
    environment["HYPERCHUNK_H5PY_TESTS"] = str(package)
    return ["h5py/tests"]


def version(package: str, python: str) -> str:
    """Returns the version of a package."""
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def page(results: list[tuple[Suite, str, Report, Report]]) -> str:
    """Formats the results as Markdown."""
    reasons: list[dict[str, str]] = json.loads((HERE / "reasons.json").read_text(encoding="utf-8"))
    summary, details = [], []
    for suite, release, stock, ours in results:
        passing = [name for name, told in stock.items() if told["outcome"] == "passed"]
        lost = [name for name in passing if ours.get(name, {}).get("outcome") != "passed"]
        gained = [
            name
            for name, told in ours.items()
            if told["outcome"] == "passed" and stock.get(name, {}).get("outcome") == "failed"
        ]
        counts: Counter[str] = Counter()
        open_: list[str] = []
        for name in lost:
            message = ours.get(name, {}).get("message", "not run")
            reason = next(
                (
                    known["reason"]
                    for known in reasons
                    if known["suite"] == suite.name
                    and re.search(known["test"], name)
                    and re.search(known.get("message", ""), message)
                ),
                None,
            )
            if reason is None:
                first = message.splitlines()[0] if message else ours.get(name, {}).get("outcome", "not run")
                open_.append(f"| `{name}` | {first[:150].replace('|', '/')} |")
            else:
                counts[reason] += 1
        kept = len(passing) - len(lost)
        summary.append(
            f"| {suite.name} {release} | {len(passing)} | **{kept}** | {sum(counts.values())} | {len(open_)} | "
            f"{len(gained)} |"
        )
        if counts or open_:
            details += ["", f"## {suite.name}", ""]
        if counts:
            details += ["| tests | difference |", "|---|---|"]
            details += [f"| {count} | {reason} |" for reason, count in counts.most_common()]
        if open_:
            details += ["", "Without a reason:", "", "| test | message |", "|---|---|", *open_]
    return "\n".join(
        [
            "# Taken for h5py",
            "",
            _INTRODUCTION,
            "",
            "| tests of | pass with h5py | of these, with Hyperchunk | differ, for a reason | open | gained |",
            "|---|---|---|---|---|---|",
            *summary,
            "",
            _OTHERS,
            "",
            "## Programs",
            "",
            _PROGRAMS,
            "",
            "## Frames",
            "",
            *_FRAMES,
            *details,
            "",
            "## Appendix: methods and machines",
            "",
            _METHODS,
            "",
        ]
    )


def main() -> None:
    """Runs the suites and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--sources", type=Path, default=Path())
    parser.add_argument("--reports", type=Path)
    parser.add_argument("--suites", nargs="*", default=[suite.name for suite in SUITES])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder: Path = (options.reports or Path(name)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        results: list[tuple[Suite, str, Report, Report]] = []
        for suite in SUITES:
            if suite.name in options.suites:
                told: list[Any] = [
                    run(suite, stock, options.python, options.sources.resolve(), folder) for stock in (True, False)
                ]
                results.append((suite, version(suite.package, options.python), told[0], told[1]))
        options.page.write_text(page(results), encoding="utf-8")


if __name__ == "__main__":
    main()
