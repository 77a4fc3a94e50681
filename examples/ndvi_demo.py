"""Live datasets on a real Sentinel-2 scene: `make demo`.

Attaches NDVI to the scene as a function in Python, Lua and C++, reads each through stock h5py in a fresh
process, checks every value against NumPy, and draws the result. Then reads datasets whose functions try to do
harm, and shows what stops them. Then reads a mosaic of the scene from an S3 server, joins 200 files there to one
dataset, lets four processes write one file at once, and asks an HDF5 file with SQL. Everything goes into
demo-output/; the exit status is 1 if any check fails.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import granules_demo
import granules_picture
import h5py
import numpy as np
import s3_demo
import s3_picture
import store_demo
import store_picture
import table_demo
import table_picture
from ndvi_picture import draw

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
OUT = ROOT / "demo-output"
UDF = os.path.relpath(HERE / "udf", OUT)
HYPERCHUNK = Path(sys.executable).with_name("hyperchunk")

LANGUAGES = [
    # label, source, file, name for doctor, precision (numbers of Python and Lua are double)
    ("Python, a loop", "ndvi.py", "s2_python.h5", "python", np.float64),
    ("Python, NumPy", "ndvi_numpy.py", "s2_numpy.h5", "python", np.float32),
    ("Lua", "ndvi.lua", "s2_lua.h5", "lua", np.float64),
    ("C++", "ndvi.cpp", "s2_cpp.h5", "c++", np.float32),
]
# action, source, options, pattern of the message
HOSTILE = [
    ("reads a file, in Python", "reads_a_file.py", ["--unsigned"], r"Permission denied: '/etc/passwd'"),
    ("opens a socket, in Lua", "opens_a_socket.lua", ["--unsigned"], r"tried system call socket\b"),
    ("opens a socket, in C++ of your own", "opens_a_socket.cpp", [], r"tried system call socket\b"),
    ("loops for ever", "loops_for_ever.lua", ["--unsigned"], r"longer than the limit of 1 s"),
    ("is C++ that nobody signed", "is_unsigned.cpp", ["--unsigned"], r"profile untrusted does not run c\+\+"),
]


def environment(**more: str) -> dict[str, str]:
    """Returns the environment of every process here: the demo's own keys and profiles, not the user's."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return kept | {"XDG_CONFIG_HOME": str(OUT / "config")} | more


def hyperchunk(*arguments: str, show: bool = True) -> str:
    """Runs the command in demo-output/, as a user would, and returns its output."""
    if show:
        print("$ hyperchunk", *arguments)
    command = [HYPERCHUNK, *arguments]
    done = subprocess.run(command, cwd=OUT, env=environment(), capture_output=True, text=True)
    text = done.stdout + done.stderr
    if show:
        print("  " + text.strip().replace("\n", "\n  "))
    if done.returncode != 0:
        sys.exit(f"demo: hyperchunk {' '.join(arguments)} failed: {text}")
    return done.stdout


@dataclass
class Checks:
    """Collects failures; the demo continues, so that one run shows everything."""

    failed: list[str] = field(default_factory=list)

    def that(self, fine: object, what: str) -> None:
        """Records `what` as failed unless `fine`."""
        if not fine:
            self.failed.append(what)
            print(f"  FAILED: {what}")


def scene() -> dict[str, np.ndarray]:
    """Returns the 300x300 scene that spyndex ships: reflectance of four bands of 10 m."""
    spec = importlib.util.find_spec("spyndex")  # found, not imported: its dependencies are not installed
    if spec is None or not spec.submodule_search_locations:
        sys.exit("demo: the package spyndex is missing; run `make demo`, which installs it")
    path = Path(spec.submodule_search_locations[0]) / "data" / "S2_10m.json"
    counts = np.array(json.loads(path.read_text()), dtype=np.float32)
    assert counts.shape == (4, 300, 300)
    return dict(zip(("Blue", "Green", "Red", "NIR"), counts / np.float32(10_000), strict=True))


def prepare() -> dict[str, np.ndarray]:
    """Makes a new demo-output/ with the scene, a key, and a short time limit for unsigned functions."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    bands = scene()
    with h5py.File(OUT / "s2.h5", "w") as file:
        for name, values in bands.items():
            file[name] = values
    hyperchunk("key", "new", "--name", "demo")
    profile = OUT / "config" / "hyperchunk" / "profiles" / "untrusted"
    profile.mkdir(mode=0o700, parents=True)
    toml = profile / "profile.toml"
    toml.write_text("version = 1\n[limits]\nwall_s = 1\n")
    toml.chmod(0o600)
    return bands


@functools.cache
def reader_environment() -> dict[str, str]:
    """Returns the environment of a reading program: the output of `hyperchunk env`, and the demo's keys."""
    name, _, value = hyperchunk("env", "--plain", show=False).strip().partition("=")
    return environment(**{name: value})


def read(name: str, dataset: str, *save: str) -> dict[str, Any]:
    """Reads a dataset in a fresh process that finds Hyperchunk only through HDF5's plugin path."""
    command = [sys.executable, HERE / "read_stock.py", name, dataset, *save]
    env = reader_environment()
    done = subprocess.run(command, cwd=OUT, env=env, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        sys.exit(f"demo: {name}: the reader died ({done.returncode}): {done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def ndvi(bands: dict[str, np.ndarray], precision: type[np.floating]) -> np.ndarray:
    """Returns NDVI by NumPy, computed in this precision and then rounded to single."""
    red, nir = bands["Red"].astype(precision), bands["NIR"].astype(precision)
    values: np.ndarray = ((nir - red) / (nir + red)).astype(np.float32)
    return values


def compare(values: np.ndarray, expected: np.ndarray) -> tuple[bool, str]:
    """Returns whether values are bit-identical or adjacent, and a description."""
    assert values.dtype == expected.dtype == np.float32
    assert values.shape == expected.shape
    if values.tobytes() == expected.tobytes():
        return True, "to the bit"
    # The bits of a float as an integer that counts floats: -0.0 and 0.0 are both 0.
    bits = [a.view(np.int32).astype(np.int64) for a in (values, expected)]
    places = [np.where(b < 0, -(b & 0x7FFF_FFFF), b) for b in bits]
    apart = int(np.abs(places[0] - places[1]).max())
    return apart <= 1, f"to {apart} ulp"


def layers() -> dict[str, str]:
    """Returns for each language the layers of its sandbox on this machine."""
    told = hyperchunk("doctor", show=False)
    return dict(re.findall(r"^self +(\S+) +runs, contained by (.*) \(", told, re.MULTILINE))


def languages(bands: dict[str, np.ndarray], checks: Checks) -> dict[str, int]:
    """Attaches NDVI in each language, reads it, prints the table; returns the size of each in its file."""
    band = ndvi(bands, np.float32)
    with h5py.File(OUT / "s2_stored.h5", "w") as file:
        file["NDVI"] = band
    stored = read("s2_stored.h5", "NDVI")
    sandbox = layers()
    times = stored["cold"], stored["warm"]
    rows = [("not live: stored", "", f"{band.nbytes:,}", *times, "", "")]
    taken = {}
    for label, source, name, language, precision in LANGUAGES:
        shutil.copyfile(OUT / "s2.h5", OUT / name)
        hyperchunk("udf", "attach", name, f"{UDF}/{source}", "--chunks", "auto")
        (entry,) = json.loads(hyperchunk("udf", "ls", "--json", name, show=False))
        taken[source] = entry["stub_bytes"] + entry["record_bytes"]
        answer = read(name, "NDVI", f"{source}.npy")
        if "error" in answer:
            checks.that(False, f"{name}: {answer['error']}")
            continue
        values = np.load(OUT / f"{source}.npy")
        fine, how = compare(values, ndvi(bands, precision))
        how += f", {np.dtype(precision).name}"
        checks.that(fine, f"{name}: {how} from NumPy")
        checks.that(answer["slice"] == values[10:20, 5].tolist(), f"{name}: the slice differs from the whole")
        checks.that(language in sandbox, f"{language}: `hyperchunk doctor` tells no layers")
        count = str(len(sandbox.get(language, "").split(", ")))
        times = answer["cold"], answer["warm"]
        rows.append((label, f"{taken[source]:,}", f"{band.nbytes:,}", *times, how, count))
    print()
    print("                  in the file:  if it were      cold      warm  equals NumPy")
    print("NDVI              stubs+record      stored      read      read  (computed in)        layers")
    for label, live, whole, cold, warm, how, count in rows:
        live += " B" if live else ""
        times = f"{cold:>6.1f} ms {warm:>6.2f} ms"
        print(f"{label:<17} {live:>12} {whole:>9} B {times}  {how:<20} {count:>6}".rstrip())
    for text in sorted(set(sandbox.values())):
        print(f"Layers of the sandbox, {', '.join(k for k, v in sandbox.items() if v == text)}: {text}.")
    return taken


def others(expected: np.ndarray, checks: Checks) -> None:
    """Reads the same slice in installed programs other than h5py."""
    wanted = expected[10:20, 5]
    env = reader_environment()
    programs: dict[str, list[str]] = {}
    if importlib.util.find_spec("netCDF4"):
        code = "import netCDF4; print(*netCDF4.Dataset('s2_cpp.h5')['NDVI'][10:20, 5].tolist())"
        programs["netCDF4"] = [sys.executable, "-c", code]
    if h5cc := shutil.which("h5cc"):
        build = [h5cc, "-shlib", os.path.relpath(HERE / "c" / "read_ndvi.c", OUT), "-o", "read_ndvi"]
        built = subprocess.run(build, cwd=OUT, capture_output=True, text=True)
        checks.that(built.returncode == 0, f"h5cc: {built.stderr}")
        programs["a C program"] = ["./read_ndvi", "s2_cpp.h5", "NDVI", "10", "20", "5"]
    print()
    for name, command in programs.items():
        done = subprocess.run(command, cwd=OUT, env=env, capture_output=True, text=True, timeout=60)
        got = np.array(done.stdout.split(), dtype=np.float32)
        checks.that(np.array_equal(got, wanted), f"{name}: {done.stdout}{done.stderr}")
        print(f"NDVI[10:20, 5] in {name}: {' '.join(f'{v:.4f}' for v in got[:4])} …")
    missing = {"netCDF4", "a C program"} - set(programs)
    if missing:
        print("not installed, so not tried:", ", ".join(sorted(missing)))


def hostile(checks: Checks) -> None:
    """Reads datasets with hostile functions. They run in the sandbox, here as everywhere."""
    print("\nNow functions that mean harm. Each is read by stock h5py; this is what its user sees.")
    print("(Unsigned functions have the profile `untrusted`, with a limit of 1 s in the demo's settings.)")
    for what, source, options, pattern in HOSTILE:
        name = f"hostile_{source.replace('.', '_')}.h5"
        h5py.File(OUT / name, "w").close()
        hyperchunk("udf", "attach", name, f"{UDF}/hostile/{source}", "Secret:64:uint8", *options, show=False)
        start = time.monotonic()
        answer = read(name, "Secret")
        seconds = time.monotonic() - start
        message = answer.get("error", "it was NOT refused")
        text = textwrap.fill(message, 108, break_long_words=False, break_on_hyphens=False)
        print(f"\n• {what} ({source}), after {seconds:.1f} s:\n{textwrap.indent(text, '    ')}")
        checks.that("error" in answer, f"{source}: NOT refused")
        checks.that(re.search(pattern, message), f"{source}: another message than {pattern!r}")


def cloud(bands: dict[str, np.ndarray], checks: Checks) -> Path | None:
    """Runs the S3 part; returns its picture."""
    found = s3_demo.act(bands, OUT)
    if found is None:
        return None
    reads, right, size = found
    for one in reads:
        checks.that(s3_picture.same(one.values, right), f"S3: {one.library} read other values than the local file has")
    s3_picture.draw(reads, size, OUT / "s3.png")
    return OUT / "s3.png"


def granules(bands: dict[str, np.ndarray], checks: Checks) -> Path | None:
    """Runs the part with many files; returns its picture."""
    answer = granules_demo.act(bands, OUT)
    if answer is None:
        return None
    for what in answer.wrong:
        checks.that(False, f"granules: {what}")
    granules_picture.draw(answer, OUT / "granules.png")
    return OUT / "granules.png"


def many(bands: dict[str, np.ndarray], checks: Checks) -> Path:
    """Runs the part with many processes; returns its picture."""
    print(f"\n{store_demo.PROCESSES} processes write one file:")
    ratios, right, size, files = store_demo.act(bands)
    checks.that(right, "sharded store: plain h5py read other values than were written")
    store_picture.draw(ratios, size, files, OUT / "store.png")
    return OUT / "store.png"


def table(bands: dict[str, np.ndarray], checks: Checks) -> Path:
    """Runs the part with SQL; returns its picture."""
    print(f"\nDuckDB asks an HDF5 file:\n  {table_demo.QUESTION}")
    seconds, size, wrong = table_demo.act(bands)
    for what in wrong:
        checks.that(False, f"table: {what}")
    table_picture.draw(seconds, size, table_demo.QUESTION, OUT / "table.png")
    return OUT / "table.png"


def main() -> None:
    """Runs all parts in turn."""
    start = time.monotonic()
    checks = Checks()
    bands = prepare()
    taken = languages(bands, checks)
    others(ndvi(bands, np.float32), checks)
    hostile(checks)
    live = OUT / "ndvi.lua.npy"
    if live.exists():
        draw(bands, np.load(live), taken["ndvi.lua"], OUT / "ndvi.png")
    picture = cloud(bands, checks)
    joined = granules(bands, checks)
    processes = many(bands, checks)
    asked = table(bands, checks)
    print(f"\n{time.monotonic() - start:.1f} s")
    if checks.failed:
        sys.exit("demo: FAILED:\n  " + "\n  ".join(checks.failed))
    print(OUT / "ndvi.png")
    if picture:
        print(picture)
    if joined:
        print(joined)
    print(processes)
    print(asked)


if __name__ == "__main__":
    main()
