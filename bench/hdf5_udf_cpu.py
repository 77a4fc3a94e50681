"""Processor time of reads, against HDF5-UDF's own back ends.

Usage: hdf5_udf_cpu.py BUILD [--python PYTHON] [--page PAGE]

``BUILD`` is the build folder of HDF5-UDF 2.1 (``meson setup BUILD -Dwith-cuda=false`` and ``-Dwith-lua=true``,
``-Dwith-python=true``, ``-Dwith-cpp=true``; its functions in Python need the package cffi). One program in C opens a file, reads a
dataset into a new array and closes it; the time includes all processes that it has started; medians of fresh
programs, ours and theirs in turn. ``--python`` is the interpreter of our workers, so that both can have the same.
"""

# ruff: noqa: E501 (sources and command lines)

import argparse
import ctypes
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

import h5py
import hyperchunk
import numpy as np

BEGIN, END = "<!-- cpu: begin -->", "<!-- cpu: end -->"
READER = """
#include <hdf5.h>
#include <stdlib.h>
int main(int c, char **v) {
    for (int n = atoi(v[3]); n > 0; n--) {
        hid_t f = H5Fopen(v[1], H5F_ACC_RDONLY, 0), d = H5Dopen2(f, v[2], 0), s = H5Dget_space(d), m = H5S_ALL, w = H5S_ALL;
        hsize_t first[2] = {10, 10}, count[2] = {1, 100}, all = H5Sget_simple_extent_npoints(s);
        if (c > 4) { H5Sselect_hyperslab(s, H5S_SELECT_SET, first, 0, count, 0); w = s; m = H5Screate_simple(1, count + 1, 0); all = 100; }
        float *p = malloc(all * sizeof *p);
        if (H5Dread(d, H5T_NATIVE_FLOAT, m, w, 0, p) < 0) return 1;
        free(p); H5Sclose(s); H5Dclose(d); H5Fclose(f);
    }
}
"""
NDVI = {
    "lua": """
function dynamic_dataset()
    local ndvi = lib.getData("NAME")
    local red = lib.getData("Red")
    local nir = lib.getData("NIR")
    local dims = lib.getDims("NAME")
    for i = 1, dims[1] * dims[2] do
        ndvi[i] = (nir[i] - red[i]) / (nir[i] + red[i])
    end
end
""",
    "cpp": """
extern "C" void dynamic_dataset()
{
    auto ndvi = lib.getData<float>("NAME");
    auto red = lib.getData<float>("Red");
    auto nir = lib.getData<float>("NIR");
    auto dims = lib.getDims("NAME");
    for (size_t i = 0; i < dims[0] * dims[1]; i++)
        ndvi[i] = (nir[i] - red[i]) / (nir[i] + red[i]);
}
""",
    "py": """
def dynamic_dataset():
    ndvi = lib.getData("NAME")
    red = lib.getData("Red")
    nir = lib.getData("NIR")
    dims = lib.getDims("NAME")
    for i in range(dims[0] * dims[1]):
        ndvi[i] = (nir[i] - red[i]) / (nir[i] + red[i])
""",
}
EMPTY = {
    "lua": 'function dynamic_dataset() local out = lib.getData("NAME") end\n',
    "cpp": 'extern "C" void dynamic_dataset() { auto out = lib.getData<float>("NAME"); }\n',
    "py": 'def dynamic_dataset():\n    out = lib.getData("NAME")\n',
}
TITLES = {"lua": "Lua", "cpp": "C++", "py": "Python, a loop"}


def cpu(words: list[str], environment: dict[str, str]) -> float:
    """Returns the processor seconds of a program and all its descendants."""
    start = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
    first = os.posix_spawn(words[0], words, environment, file_actions=start)
    total = 0.0
    while True:
        try:
            pid, status, used = os.wait4(-1, 0)
        except ChildProcessError:
            return total
        if pid == first and status:
            raise SystemExit(f"{' '.join(words)} failed: {status}")
        total += used.ru_utime + used.ru_stime


def main() -> None:
    """Measures, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    # Makes this process the parent of orphans, so that it can wait for them.
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    rows = []
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("HDF5_", "HYPERCHUNK_", "XDG_"))
        }
        environment = kept | {"HOME": text, "TMPDIR": text}
        build = str(given.build.resolve())
        theirs = environment | {"HDF5_PLUGIN_PATH": build, "LD_LIBRARY_PATH": build, "PATH": f"/usr/bin:{kept['PATH']}"}
        plugins = str(Path(hyperchunk.__file__).parent / "plugins")
        ours = environment | {"HDF5_PLUGIN_PATH": plugins, "HYPERCHUNK_PYTHON": given.python}
        (folder / "read.c").write_text(READER, encoding="utf-8")
        flags = subprocess.run(
            ["pkg-config", "--cflags", "--libs", "hdf5"], capture_output=True, text=True, check=True
        ).stdout.split()
        subprocess.run(["gcc", "-O2", "-o", "read", "read.c", *flags], cwd=folder, check=True)
        subprocess.run(
            ["hyperchunk", "key", "new"], env=ours | {"PATH": kept["PATH"]}, check=True, stdout=subprocess.DEVNULL
        )
        for size in (1000, 4000):
            for who in ("ours", "theirs"):
                with h5py.File(folder / f"{who}{size}.h5", "w") as file:
                    random = np.random.default_rng(1)
                    for name in ("Red", "NIR"):
                        file[name] = (random.integers(1, 10000, (size, size)) / 10000).astype("f4")
            for title, sources in (("empty", EMPTY), ("NDVI", NDVI)):
                for language, source in sources.items():
                    name = f"{title}_{language}"
                    script = folder / f"{name}.{language}"
                    script.write_text(source.replace("NAME", name), encoding="utf-8")
                    described = f"{name}:{size}x{size}:float"
                    quiet = {"cwd": folder, "check": True, "stdout": subprocess.DEVNULL}
                    command = [
                        "hyperchunk",
                        "udf",
                        "attach",
                        f"ours{size}.h5",
                        script.name,
                        described,
                        "--chunks",
                        "auto",
                    ]
                    subprocess.run(command, env=ours | {"PATH": kept["PATH"]}, **quiet)
                    subprocess.run(
                        [f"{build}/hdf5-udf", f"theirs{size}.h5", script.name, described], env=theirs, **quiet
                    )
                    cells = []
                    for reads in (1,) if size > 1000 else (1, 5):
                        took: dict[str, list[float]] = {"ours": [], "theirs": []}
                        for _ in range(given.rounds if size == 1000 else 3):
                            for who, env in (("ours", ours), ("theirs", theirs)):
                                words = [str(folder / "read"), str(folder / f"{who}{size}.h5"), name, str(reads)]
                                took[who].append(cpu(words, env))
                        mine, other = (statistics.median(took[who]) * 1e3 for who in ("ours", "theirs"))
                        cells.append(f"| {mine:.1f} | {other:.1f} | **{other / mine:.1f}** ")
                    cells += ["| | | "] * (2 - len(cells))
                    rows.append(f"| {title}, {TITLES[language]} | {size} {''.join(cells)}|")
                    print(rows[-1], flush=True)
    table = [
        "| function | N | first read, ms | HDF5-UDF | ratio | five reads, ms | HDF5-UDF | ratio |",
        "|---|---|---|---|---|---|---|---|",
        *rows,
    ]
    if given.page:
        page = given.page.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        given.page.write_text(
            f"{before}{BEGIN}\n\n" + "\n".join(table) + f"\n\n{END}{rest.split(END)[1]}", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
