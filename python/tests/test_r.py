"""The R package: the guide's examples, subscripts, types, and the files of the corpus, beside h5py."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hyperchunk
import native
import numpy as np
import pytest
from test_c_reads import CORPUS, corpus

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(not shutil.which("Rscript"), reason="R is not installed (r-base-core)")

Run = Callable[..., str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Installs the package; returns a function that runs a script with it, and returns what that prints."""
    folder = tmp_path_factory.mktemp("r")
    prefix, library, source = folder / "prefix", folder / "library", folder / "hyperchunk"
    library.mkdir()
    shutil.copytree(ROOT / "bindings" / "r", source)
    env = native.environment()
    command = [sys.executable, ROOT / "tools" / "install_c.py", "--prefix", prefix, "--profile", "debug"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    env |= {"PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig"), "R_LIBS": str(library), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["R", "CMD", "INSTALL", "-l", library, source], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in (done.stdout + done.stderr).lower()

    def script(code: str, *words: object, cwd: Path = folder) -> str:
        command = ["Rscript", "--vanilla", "-e", "library(hyperchunk)", "-e", code, *map(str, words)]
        done = subprocess.run(command, env=env, capture_output=True, cwd=cwd, check=False)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout.decode()

    return script


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        a = file.create_dataset("a", data=np.arange(60, dtype="<i4").reshape(5, 4, 3), chunks=(2, 2, 2))
        a.attrs.update(
            {"units": "K", "gain": np.float32(1.5), "table": np.arange(6).reshape(2, 3), "names": ["p", "q"]}
        )
        a.attrs["nothing"] = h5py.Empty("f4")
        a.attrs["pair"] = np.zeros(2, [("x", "i4"), ("y", "f8")])
        file["g/strings"] = ["x", "größer", ""]
        file["minimum"] = np.array([-(2**31), 5], "i4")
        file["large"] = np.array([1, 2**60])
        file["exact"] = np.array([-(2**53), 2**53])
        file["unsigned"] = np.array([2**64 - 1], "u8")
        file["compound"] = np.zeros(3, [("x", "i4"), ("y", "f8")])
        file["null"] = h5py.Empty("i4")
        file["scalar"] = 3
    return path


NUMBERS = np.arange(60).reshape(5, 4, 3)


@pytest.mark.parametrize(
    ("subscripts", "expected"),
    [
        ("", NUMBERS),
        (", ,", NUMBERS),
        ("2, 3, 1", NUMBERS[0, 2, 1]),
        ("1:3, c(1, 3), c(2, 4)", NUMBERS[1:4:2, 0:3:2]),
        ("c(3, 1), -2, c(5, 5, 1)", NUMBERS[[4, 4, 0]][:, [0, 2, 3]][:, :, [2, 0]]),
        ("c(TRUE, FALSE, TRUE), 4:1, 2", NUMBERS[1, ::-1, ::2]),
        ("i, f(1), 5", NUMBERS[4, 1, 1]),
        ("integer(0), 1, 1", NUMBERS[0, 0, :0]),
    ],
)
def test_subscripts(run: Run, path: Path, subscripts: str, expected: Any) -> None:
    code = f"""
        i <- 2; f <- function(x) x + 1
        a <- hc_open(commandArgs(TRUE)[[1]])$a
        found <- a[{subscripts}]
        same <- as.array(a)[{subscripts or ",,"}]
        stopifnot(identical(found, same), is.integer(found))
        cat(found, "\\n"); cat(dim(found), "\\n")
    """
    values, dims = run(code, path).split("\n")[:2]
    array = np.squeeze(expected)
    assert [int(word) for word in values.split()] == np.ravel(array).tolist()
    assert [int(word) for word in dims.split()] == (list(array.shape[::-1]) if array.ndim > 1 else [])


REFUSED = 'expected numbers or strings, got elements of class compound; as = "raw" gives their bytes'


def test_types_attributes_and_errors(run: Run, path: Path) -> None:
    told = run(
        """
        f <- hc_open(commandArgs(TRUE)[[1]])
        fails <- function(code) tryCatch({ force(code); "no error" }, error = conditionMessage)
        cat(names(f), "\\n")
        print(f$a)
        cat(dim(f$a), length(f$a), length(f$null), length(f$scalar), "\\n")
        b <- hc_attributes(f$a)
        stopifnot(identical(b$units, "K"), identical(b$gain, 1.5), identical(b$names, c("p", "q")))
        stopifnot(length(b$nothing) == 0)
        stopifnot(identical(dim(b$table), c(3L, 2L)), identical(b$table[, 1], c(0, 1, 2)))
        stopifnot(inherits(b$pair, "hc_unread"))
        stopifnot(identical(f[["g/strings"]][], c("x", "gr\\u00f6\\u00dfer", "")))
        stopifnot(identical(f$g$strings[2], "gr\\u00f6\\u00dfer"))
        stopifnot(identical(f$minimum[], c(-2147483648, 5)), identical(f$exact[], c(-2^53, 2^53)))
        stopifnot(is.null(f$null[]), identical(f$scalar[], 3), is.null(dim(f$scalar)), is.null(f$nothing))
        large <- hc_read(f$large, as = "integer64")
        stopifnot(inherits(large, "integer64"), identical(hc_read(f$large, as = "raw")[8, ], as.raw(c(0, 16))))
        stopifnot(identical(dim(hc_read(f$compound, as = "raw")), c(12L, 3L)))
        many <- hc_read_many(list(x = f$a, s = f$g$strings, n = f$null, m = f$minimum))
        stopifnot(identical(many$x, f$a[]), identical(many$s, f$g$strings[]), is.null(many$n))
        stopifnot(identical(many$m, f$minimum[]))
        writeLines(c(fails(f$large[]), fails(f$unsigned[]), fails(hc_read(f$unsigned, as = "integer64"))))
        writeLines(c(fails(f$compound[]), fails(f[["none"]]), fails(f$a[1, 1])))
        writeLines(c(fails(f$a[4, 1, 1]), fails(f$a[NA, 1, 1])))
        cat(fails(hc_open("none.h5")), "\\n")
        a <- f$a
        hc_close(f)
        stopifnot(a[1, 1, 1] == 0)
        cat(fails(names(f)), "\\n")
        listed <- hc_ls(hc_open(commandArgs(TRUE)[[1]]))
        print(listed[listed$path %in% c("a", "g", "g/strings", "null", "scalar"), ], row.names = FALSE)
        """,
        path,
    )
    assert told.replace(str(path), "a.h5").splitlines() == [
        "a compound exact g large minimum null scalar unsigned ",
        "<dataset /a: 3 x 4 x 5, int32 (a.h5)>",
        "3 4 5 60 0 1 ",
        'cannot read the integers as double: element 2 is beyond 2^53; use as = "integer64"',
        'cannot read the integers as double: element 1 is beyond 2^53; use as = "integer64"',
        'cannot read the integers as integer64: element 1 is beyond its range; use as = "raw"',
        f"cannot read /compound of a.h5: {REFUSED}",
        "cannot open /none: expected a group or dataset in a.h5; hc_ls() lists them",
        "expected 3 subscripts for /a, got 2",
        "subscript out of bounds",
        "cannot select by NA",
        "cannot open the file: No such file or directory (file none.h5) ",
        "cannot use the object: it is closed, or was saved by another session; open the file again ",
        "      path    kind       dim   type",
        "         a dataset 3 x 4 x 5  int32",
        "         g   group                 ",
        " g/strings dataset         3 string",
        "      null dataset     empty  int32",
        "    scalar dataset    scalar  int64",
    ]


def test_live_datasets_and_stores(run: Run, tmp_path: Path) -> None:
    with hyperchunk.open(tmp_path / "live.h5", "w") as file:
        file["a"] = np.arange(6.0)
    hyperchunk.udf.attach(tmp_path / "live.h5", outputs="double", expression="a * 2", unsigned=True)
    made = hyperchunk.store.create(tmp_path / "run.h5", {"/x": hyperchunk.store.Dataset((10,), "i4")})
    with made.writer() as writer:
        writer["/x"][2:5] = 7
    made.commit()
    told = run('cat(hc_open("live.h5")$double[], hc_open("run.h5")$x[3:6], sep = " ")', cwd=tmp_path)
    assert told == "0 2 4 6 8 10 7 7 7 0"


def test_the_guide(run: Run, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "guide" / "r.md").read_text(encoding="utf-8")
    [code] = re.findall(r"^```r\n(.*?)^```", page, re.M | re.S)
    with h5py.File(tmp_path / "scene.h5", "w") as file:
        nir = file.create_dataset("NIR", data=np.arange(40_000, dtype="u2").reshape(200, 200), chunks=(50, 50))
        nir.attrs["units"] = "reflectance"
    (tmp_path / "guide.R").write_text(code, encoding="utf-8")
    told = run('source("guide.R", print.eval = TRUE)', cwd=tmp_path).splitlines()
    assert told[1:] == ["1  NIR dataset 200 x 200 uint16", "[1] 200 200", "[1] 9949.5", '[1] "reflectance"']


EXPORT = """
    lines <- readLines(commandArgs(TRUE)[[1]], encoding = "UTF-8")
    to <- file(commandArgs(TRUE)[[2]], "wb")
    for (line in strsplit(lines, "\\t")) {
        x <- hc_open(line[[1]])[[line[[2]]]]
        values <- tryCatch(hc_read(x, drop = FALSE), error = function(error) cat(conditionMessage(error), "\n"))
        if (is.null(values)) { writeBin(-1, to); next }
        writeBin(c(length(dim(x)), dim(x), as.double(values)), to)
    }
    close(to)
"""


def test_numbers_of_the_corpus(run: Run, tmp_path: Path) -> None:
    """Equal to h5py's, wherever both read."""
    wanted: list[tuple[Path, str, np.ndarray[Any, Any]]] = []
    for path in corpus():
        try:
            file = h5py.File(path, "r")
        except OSError:
            continue
        with file, contextlib.suppress(RuntimeError, OSError, KeyError, ValueError, TypeError):

            def note(name: str, found: Any, path: Path = path) -> None:
                if not isinstance(found, h5py.Dataset) or "\t" in name or "\n" in name or not found.size:
                    return
                with contextlib.suppress(OSError, TypeError, ValueError, KeyError):
                    if found.dtype.kind in "iuf" and found.dtype.itemsize <= 8 and found.size < 100_000:
                        wanted.append((path, name, found[()]))

            file.visititems(note)
    (tmp_path / "list").write_bytes(b"".join(b"%s\t%s\n" % (os.fsencode(p), n.encode()) for p, n, _ in wanted))
    told = iter(run(EXPORT, tmp_path / "list", tmp_path / "values").splitlines())
    numbers, compared = np.fromfile(tmp_path / "values"), 0
    at = 0
    for path, name, expected in wanted:
        rank = int(numbers[at])
        at += 1
        if rank < 0:
            large = np.asarray(expected).dtype.itemsize == 8 and bool(
                (np.abs(np.asarray(expected, "f8")) > 2**53).any()
            )
            reason = next(told)
            assert ("beyond 2^53" in reason) == large or "class bitfield" in reason, (path, name, reason)
            continue
        shape = tuple(int(one) for one in numbers[at : at + rank][::-1])
        at += rank
        assert shape == np.shape(expected), (path, name)
        found = numbers[at : at + np.size(expected)].reshape(shape)
        at += np.size(expected)
        np.testing.assert_array_equal(found, np.asarray(expected, "f8"), f"{path} {name}")
        compared += 1
    assert at == len(numbers)
    assert compared > (1000 if len(CORPUS) == 2 else 50)
