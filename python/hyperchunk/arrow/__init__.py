"""HDF5 data as Apache Arrow: tables over groups and datasets, for pyarrow, polars, pandas, DuckDB and all that speak
Arrow's C interface. None of these need be installed."""

from __future__ import annotations

import os

from hyperchunk import _core
from hyperchunk.arrow.remote import RemoteTable
from hyperchunk.arrow.scan import scan_hyperchunk
from hyperchunk.arrow.table import Table, table_of

if hasattr(os, "register_at_fork"):
    # What is read ahead by a thread must not be half done in a copy of the process.
    os.register_at_fork(before=_core.before_fork, after_in_parent=_core.after_fork, after_in_child=_core.after_fork)

__all__ = ["RemoteTable", "Table", "scan_hyperchunk", "table_of"]
