"""HDF5-UDF's own behaviour, where it has to be switched on."""

import pytest


@pytest.fixture(autouse=True)
def printed_as_hdf5_udf_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """What functions print goes to the stream of the same name, as it is."""
    monkeypatch.setenv("HYPERCHUNK_PRINT", "streams")
