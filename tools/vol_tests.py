"""Runs HDF5's own tests of its API through the connector, and reports differences from a native run.

Usage: vol_tests.py SOURCES [PAGE]. SOURCES is a clone of the repository HDFGroup/vol-tests. Its programs h5vl_test and
testhdf5 are built for three releases of HDF5, with libraries from published wheels and headers from the crate
hdf5-metno-src. They run natively, passed through, and with a store for every new file. The table goes to standard
output, or into PAGE. Needs gcc, cmake 3.26 and cargo."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hdf5_with_mpi
import hyperchunk

BEGIN, END = "<!-- vol-tests: begin -->", "<!-- vol-tests: end -->"
#: Release, and the version of the crate hdf5-metno-src that contains its headers.
RELEASES = {"1.14.6": "0.9.5", "2.0.0": "0.10.0", "2.2.0": "0.10.4"}
MODES = {"native": {}, "pass": {"store": False}, "store": {"store": True}}
SEEDS = range(1, 9)
CONFIGURE = ["BUILD_TESTING=OFF", "HDF5_BUILD_TOOLS=OFF", "HDF5_BUILD_EXAMPLES=OFF", "HDF5_BUILD_HL_LIB=OFF"]
CONFIGURE += ["HDF5_NO_PACKAGES=ON", "HDF5_ENABLE_Z_LIB_SUPPORT=OFF", "HDF5_ENABLE_ZLIB_SUPPORT=OFF"]
#: Patches for the tests of 2024: a fixed seed; ids of connectors are not compared as numbers, since HDF5 2.x creates
#: new ones; and no link from a group to itself, since HDF5 1.14.6 crashes, natively too, when one is deleted in a file
#: of format 1.8 or later, such as the skeleton of a store.
CHANGES = {
    "vol_test.c": [
        ("seed = (unsigned)HDtime(NULL);", 'seed = (unsigned)atoi(getenv("SEED"));'),
        (
            "if (default_con_id != registered_con_id) {",
            "int differ = 1; H5VLcmp_connector_cls(&differ, default_con_id, registered_con_id); if (differ) {",
        ),
    ],
    "vol_link_test.c": [('H5Lcreate_hard(subgroup_id, ".", subgroup_id', 'H5Lcreate_hard(group_id, ".", subgroup_id')],
}
RESULT = re.compile(r"^( *)Testing (.*?) *(PASSED|\*FAILED\*|-SKIP-)$", re.MULTILINE)
WRONG = re.compile(r"^\*\*\* (.*?)(?: at line +\d+)? in (\S+)$", re.MULTILINE)


def headers(release: str, folder: Path) -> Path:
    """Returns a folder with the headers of a release."""
    made = folder / f"include-{release}"
    made.mkdir()
    sources, configured = hdf5_with_mpi.sources(RELEASES[release]), folder / f"configured-{release}"
    options = [f"-D{option}" for option in CONFIGURE]
    subprocess.run(["cmake", "-S", sources, "-B", configured, *options], check=True, stdout=subprocess.DEVNULL)
    for root in (sources / "src", configured):
        for header in [*root.rglob("H5*.h"), *root.rglob("hdf5.h")]:
            if not header.stem.endswith(("private", "pkg", "module")):
                shutil.copy(header, made)
    return made


def library(release: str) -> Path:
    """Returns the libhdf5 of a release."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hyperchunk" / "hdf5" / release
    site = Path(sys.prefix) / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    for root in (cache, site / "netcdf4.libs"):
        for found in sorted(root.glob("libhdf5[-.]*so*")):
            if release.encode() in found.read_bytes():
                return found
    raise SystemExit(f"cannot find libhdf5 {release}: run tools/hdf5_releases.py {cache.parent}")


def build(sources: Path, release: str, folder: Path) -> dict[str, Path]:
    """Builds the two programs."""
    include, shared = headers(release, folder), library(release)
    text = (sources / "h5vl_test_config.h.in").read_text()
    (include / "h5vl_test_config.h").write_text(re.sub("#cmakedefine .*", "", text))
    counters = folder / "counters.c"
    counters.write_text("unsigned long n_tests_failed_g, n_tests_run_g, n_tests_passed_g, n_tests_skipped_g;\n")
    compiler = ["gcc", "-w", "-O1", "-std=gnu11", "-D_GNU_SOURCE", f"-I{include}", f"-I{sources}"]
    link = [str(shared), f"-Wl,-rpath,{shared.parent}", "-Wl,--allow-shlib-undefined", "-lm"]
    util = sources / "vol_test_util.c"
    of_api = [sources / "vol_test.c", util, *(one for one in sources.glob("vol_*_test.c"))]
    of_library = [counters, util, *(sources / "hdf5_test").glob("t*.c")]
    made = {}
    for name, files, more in (("h5vl_test", of_api, []), ("testhdf5", of_library, ["-DH5_USE_114_API"])):
        made[name] = folder / f"{name}-{release}"
        own = [f"-I{sources / 'hdf5_test'}"] if name == "testhdf5" else []
        subprocess.run([*compiler, *own, *more, *files, "-o", made[name], *link], check=True)
    return made


def run(program: Path, mode: str, seed: int, shared: Path) -> tuple[int, str]:
    """Runs a program; returns its exit status and output."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("HDF5_", "HYPERCHUNK_"))}
    env |= {"SEED": str(seed), "LD_LIBRARY_PATH": str(shared.parent)}
    if mode != "native":
        env |= hyperchunk.plugins.environment(store=mode == "store")
        env["HDF5_VOL_CONNECTOR"] = "hyperchunk store" if mode == "store" else "hyperchunk"
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run([program], cwd=scratch, env=env, capture_output=True, timeout=600)
    return done.returncode, done.stdout.decode(errors="replace")


def outcomes(output: str) -> Iterator[tuple[str, str]]:
    """Yields the name, with its group, and the result of each test, and the errors of testhdf5."""
    group = ""
    for indent, name, result in RESULT.findall(output):
        group = group if indent else name
        yield (f"{group}: {name}" if indent else name), result
    for wrong, file in WRONG.findall(output):
        yield f"{file.rsplit('/', 1)[-1]}: {wrong}", "*FAILED*"


def main() -> None:
    """Builds and runs the tests, and prints or writes the table."""
    rows = ["| program | HDF5 | seeds | natively | passed through | as a store |", "|---|---|---|---|---|---|"]
    differences: dict[str, set[str]] = {}
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        sources = Path(shutil.copytree(sys.argv[1], folder / "sources", ignore=shutil.ignore_patterns(".git")))
        for file, changes in CHANGES.items():
            content = (sources / file).read_text()
            for old, new in changes:
                assert old in content, f"cannot change {file}: expected {old!r} in it"
                content = content.replace(old, new)
            (sources / file).write_text(content)
        for release in RELEASES:
            shared = library(release)
            for name, program in build(sources, release, folder).items():
                counts = {mode: [0, 0, 0] for mode in MODES}
                seeds = SEEDS if name == "h5vl_test" else [1]
                for seed in seeds:
                    native: dict[str, str] = {}
                    for mode in MODES:
                        status, output = run(program, mode, seed, shared)
                        assert status in (0, 1), f"{name} of HDF5 {release} exited with {status} ({mode}, seed {seed})"
                        found = dict(outcomes(output))
                        native = found if mode == "native" else native
                        for column, result in enumerate(("PASSED", "*FAILED*", "-SKIP-")):
                            counts[mode][column] += list(found.values()).count(result)
                        for one, result in found.items():
                            if result == "*FAILED*" and native.get(one) != result:
                                differences.setdefault(f"{mode}: {one}", set()).add(release)
                cells = [f"{good} / {bad} / {left}" for good, bad, left in counts.values()]
                rows.append(f"| {name} | {release} | {len(seeds)} | {' | '.join(cells)} |")
    lines = [*rows, "", *(f"- {one} ({', '.join(sorted(of))})" for one, of in sorted(differences.items()))]
    table = "\n".join(lines)
    if len(sys.argv) < 3:
        print(table)
        return
    page = Path(sys.argv[2])
    before, _, rest = page.read_text().partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
