"""Sharded stores: any number of processes write one logical HDF5 file, without locks and without MPI-IO.

Each process has its own log beside the file; a commit merges the logs into one file, which plain HDF5 reads::

    from hyperchunk import store

    run = store.create("run.h5", {"/energy": store.Dataset((8_000_000,), "f4")})
    with run.writer() as writer:            # in each process: `run` pickles
        writer["/energy"][start:stop] = values
    run.commit()                            # once, in any process
"""

from __future__ import annotations

from hyperchunk.store.analysis import Analysis, Report, Results, StoredAnalysis
from hyperchunk.store.following import Matches
from hyperchunk.store.handle import Conflict, Epoch, Store, StoreWarning, create, open
from hyperchunk.store.parallel import commit_all, create_all, to_hyperchunk
from hyperchunk.store.schema import Dataset
from hyperchunk.store.tables import Fragments, fragments
from hyperchunk.store.writer import StoredDataset, Writer

__all__ = [
    "Analysis",
    "Conflict",
    "Dataset",
    "Epoch",
    "Fragments",
    "Matches",
    "Report",
    "Results",
    "Store",
    "StoreWarning",
    "StoredAnalysis",
    "StoredDataset",
    "Writer",
    "commit_all",
    "create",
    "create_all",
    "fragments",
    "open",
    "to_hyperchunk",
]
