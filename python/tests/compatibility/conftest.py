"""Optional HDF5-UDF behaviour, switched on."""

import pytest


@pytest.fixture(autouse=True)
def printed_as_hdf5_udf_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sends the output of functions to the stream of the same name, unchanged."""
    monkeypatch.setenv("HYPERCHUNK_PRINT", "streams")
