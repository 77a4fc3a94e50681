"""HDF5 data as Apache Arrow tables over groups and datasets, for pyarrow, polars, pandas, DuckDB and every other user
of Arrow's C interface. None of these packages is required.
"""

from __future__ import annotations

import os

from hyperchunk import _core
from hyperchunk.arrow.remote import RemoteTable
from hyperchunk.arrow.scan import scan_hyperchunk
from hyperchunk.arrow.table import Table, as_table

if hasattr(os, "register_at_fork"):
    # No read-ahead thread may be working while the process forks.
    os.register_at_fork(before=_core.before_fork, after_in_parent=_core.after_fork, after_in_child=_core.after_fork)

__all__ = ["RemoteTable", "Table", "as_table", "scan_hyperchunk"]
