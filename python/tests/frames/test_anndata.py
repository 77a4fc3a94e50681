"""AnnData: frames equal to anndata's, sparse matrices equal to SciPy's, and files in the documented form."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import duckdb
import h5py
import hyperchunk
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hyperchunk.frames.sparse import Sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[3]
CORPUS = Path(os.environ.get("HYPERCHUNK_CORPUS", ROOT.parent / "shared" / "corpus"))
COUNT = int(os.environ.get("HYPERCHUNK_FRAMES", "20"))

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file as anndata 0.12 writes it."""
    path = tmp_path / "a.h5ad"
    with h5py.File(path, "w") as file:
        file.attrs["encoding-type"], file.attrs["encoding-version"] = "anndata", "0.1.0"
        obs = file.create_group("obs")
        obs.attrs.update({"encoding-type": "dataframe", "_index": "_index", "column-order": ["c", "n", "b", "s", "f"]})
        obs["_index"] = ["c0", "c1", "c2", "c3"]
        category = obs.create_group("c")
        category.attrs.update({"encoding-type": "categorical", "ordered": True})
        category["codes"], category["categories"] = np.array([1, -1, 0, 1], "i1"), ["low", "high"]
        for name, kind, values in (("n", "integer", [5, 0, 7, 8]), ("b", "boolean", [True, False, True, True])):
            group = obs.create_group(name)
            group.attrs["encoding-type"] = f"nullable-{kind}"
            group["values"], group["mask"] = values, [False, True, False, False]
        text = obs.create_group("s")
        text.attrs.update({"encoding-type": "nullable-string-array", "na-value": "NA"})
        text["values"], text["mask"] = ["x", "", "ü", "nan"], [False, True, False, False]
        obs["f"] = np.arange(4.0)
        for name, layout in (("X", "csr_matrix"), ("T", "csc_matrix")):
            matrix = file.create_group(name)
            matrix.attrs.update({"encoding-type": layout, "shape": [4, 3] if name == "X" else [3, 4]})
            matrix["data"], matrix["indices"] = np.array([1.0, 2, 3], "f4"), np.array([0, 2, 1])
            matrix["indptr"] = np.array([0, 1, 1, 3, 3])
        file["uns/note"] = "text"
        file["uns/note"].attrs["encoding-type"] = "string"
        file["uns"].attrs["encoding-type"] = "dict"
    return path


def expected_obs() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "c": pd.Categorical.from_codes([1, -1, 0, 1], ["low", "high"], ordered=True),
            "n": pd.array([5, None, 7, 8], "Int64"),
            "b": pd.array([True, None, True, True], "boolean"),
            "s": pd.array(["x", None, "ü", "nan"], "string"),
            "f": np.arange(4.0),
        },
        index=["c0", "c1", "c2", "c3"],
    )


def test_frames(path: Path) -> None:
    for frame in (hyperchunk.frames.read(hyperchunk.open(path)["obs"]), hyperchunk.open(path).table("obs")):
        pd.testing.assert_frame_equal(frame.to_pandas(), expected_obs())
        pd.testing.assert_frame_equal(frame.to_pyarrow().to_pandas(), expected_obs())
        assert frame.to_polars()["c"].to_list() == ["high", None, "low", "high"]
        assert frame.to_polars().schema["c"] == pl.Categorical() or frame.to_polars()["c"].dtype == pl.Enum
        assert frame.to_polars()["n"].to_list() == [5, None, 7, 8]
    found = hyperchunk.frames.read(hyperchunk.open(path)["obs"], where="c == 'high' & n > 5", columns=["n"])
    assert found.to_pandas().index.tolist() == ["c3"]


def test_matrices(path: Path) -> None:
    dense = np.array([[1, 0, 0], [0, 0, 0], [0, 3, 2], [0, 0, 0]], "f4")
    file = hyperchunk.open(path)
    rows, columns = hyperchunk.frames.read(file["X"]), hyperchunk.frames.read(file["T"])
    assert isinstance(rows, Sparse)
    assert (rows.shape, rows.nnz, rows.layout) == ((4, 3), 3, "csr")
    np.testing.assert_array_equal(rows.to_numpy(), dense)
    np.testing.assert_array_equal(columns.to_numpy(), dense.T)
    data, indices, pointers = rows.parts(1, 3)
    assert (data.tolist(), indices.tolist(), pointers.tolist()) == ([2, 3], [2, 1], [0, 0, 2])


def test_slices_of_matrices(path: Path) -> None:
    pytest.importorskip("scipy")
    rows = hyperchunk.frames.read(hyperchunk.open(path)["X"])
    dense = rows.to_numpy()
    np.testing.assert_array_equal(rows.to_scipy().toarray(), dense)
    np.testing.assert_array_equal(rows[1:3].toarray(), dense[1:3])
    np.testing.assert_array_equal(rows[1:, :2].toarray(), dense[1:, :2])
    np.testing.assert_array_equal(rows[[0, 2]].toarray(), dense[[0, 2]])


def test_files(path: Path) -> None:
    found = hyperchunk.frames.read(hyperchunk.open(path))
    assert list(found) == ["T", "X", "obs", "uns"]
    assert found["uns"] == {"note": "text"}
    assert hyperchunk.frames.kind(hyperchunk.open(path)["obs"]) == "anndata"


@pytest.mark.parametrize("damage", ["codes", "mask", "length", "indptr"])
def test_damaged_files(path: Path, damage: str) -> None:
    with h5py.File(path, "r+") as file:
        if damage == "codes":
            file["obs/c/codes"][0] = 7
        elif damage == "indptr":
            file["X/indptr"][1] = 9
        else:
            name = "obs/n/mask" if damage == "mask" else "obs/f"
            del file[name]
            file[name] = np.zeros(3, bool)
    with pytest.raises(hyperchunk.HyperchunkError):
        hyperchunk.frames.read(hyperchunk.open(path)["X" if damage == "indptr" else "obs"]).to_pandas()


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_a_file_of_2019() -> None:
    """anndata 0.7: categories are references to `__categories`."""
    file = hyperchunk.open(CORPUS / "files/scverse+anndata/tests/data/archives/v0.7.0/adata.h5ad")
    found = hyperchunk.frames.read(file["obs"]).to_pandas()
    assert found.shape == (30, 5)
    assert found["cat_ordered"].dtype.ordered
    assert list(found["obs_cat"].cat.categories) == sorted(found["obs_cat"].unique())


@settings(max_examples=COUNT, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32 - 1), rows=st.sampled_from([1, 5, 30]), kinds=st.lists(st.integers(0, 8), max_size=6))
def test_random_frames(tmp_path: Path, seed: int, rows: int, kinds: list[int]) -> None:
    anndata = pytest.importorskip("anndata")
    rng, path = np.random.default_rng(seed), tmp_path / "r.h5ad"
    makers: list[Any] = [
        lambda: rng.integers(-5, 5, rows, rng.choice(["i1", "i8"])),
        lambda: rng.random(rows).astype(rng.choice(["f4", "f8"])),
        lambda: rng.random(rows) < 0.5,
        lambda: pd.array(np.where(rng.random(rows) < 0.3, None, rng.integers(0, 9, rows)), "Int32"),
        lambda: pd.array(np.where(rng.random(rows) < 0.3, None, rng.random(rows) < 0.5), "boolean"),
        lambda: pd.Categorical(rng.choice(["a", "b", "ü"], rows), ordered=bool(rng.integers(2))),
        lambda: pd.Categorical.from_codes(rng.integers(-1, 2, rows), [1.5, 2.5]),
        lambda: rng.choice(["x", "nan", "", "日本"], rows).astype("O"),
        lambda: pd.Categorical.from_codes(rng.integers(-1, 3, rows), [7, 3, 5]),
    ]
    made = pd.DataFrame(
        {f"c{place}": makers[kind]() for place, kind in enumerate(kinds)}, index=[f"r{n}" for n in range(rows)]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path.unlink(missing_ok=True)
        anndata.AnnData(obs=made).write_h5ad(path)
        expected = anndata.read_h5ad(path).obs
    frame = hyperchunk.frames.read(hyperchunk.open(path)["obs"])
    pd.testing.assert_frame_equal(frame.to_pandas(), expected)
    pd.testing.assert_frame_equal(frame.to_pyarrow().to_pandas(), expected)
    in_polars = frame.to_polars()
    for name in expected:
        wanted = [None if pd.isna(value) else value for value in expected[name]]
        assert in_polars[name].to_list() == wanted
        quoted = duckdb.sql(f'select "{name}" from frame').fetchall()
        assert [row[0] for row in quoted] == wanted


def test_null_and_records(tmp_path: Path) -> None:
    """As anndata reads them: None, and the texts of scanpy's `rank_genes_groups` as `str`."""
    path = tmp_path / "a.h5ad"
    with h5py.File(path, "w") as file:
        uns = file.create_group("uns")
        uns.attrs["encoding-type"] = "dict"
        uns["none"] = h5py.Empty("f4")
        uns["none"].attrs["encoding-type"] = "null"
        dtype = [("names", h5py.string_dtype()), ("b", "f8"), ("s", "S3"), ("m", "i2", (2,))]
        uns["groups"] = np.array([("g1", 2.0, b"abc", [1, 2]), ("gü", 3.0, b"d", [3, 4])], dtype)
        uns["groups"].attrs["encoding-type"] = "rec-array"
    with hyperchunk.open(path) as file:
        found = hyperchunk.frames.read(file["uns"])
    assert found["none"] is None
    assert found["groups"].dtype == np.dtype([("names", "O"), ("b", "f8"), ("s", "U3"), ("m", "i2", (2,))])
    assert found["groups"].tolist()[0][:3] == ("g1", 2.0, "abc")
    assert found["groups"]["names"].tolist() == ["g1", "gü"]
    assert found["groups"]["m"].tolist() == [[1, 2], [3, 4]]
