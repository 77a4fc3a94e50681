#!/usr/bin/env bash
# Every test, then the slow lanes: HDF5-UDF's own tests, all orders of HDF5's releases over the sessions of a store, kills, programs for
# parallel HDF5, behaviour that `hyperchunk env` must not change, random histories of stores. Called by `make test-all`.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/env.sh

tools/test.sh fast
tools/test.sh slow
# Other systems: type checks, and tests under emulators (half an hour where nothing was built before).
make platforms
.venv/bin/python tools/hdf5_udf_suite.py
releases=${XDG_CACHE_HOME:-$HOME/.cache}/hyperchunk/hdf5
.venv/bin/python tools/hdf5_releases.py "$releases"
HYPERCHUNK_HDF5_RELEASES=$releases HYPERCHUNK_KILLS=1000 \
    .venv/bin/python -m pytest python/tests/vol/test_release_matrix.py python/tests/vol/test_kills.py
# Each libhdf5 is built once: three minutes on two cores.
for mpi in mpich openmpi; do .venv/bin/python tools/hdf5_with_mpi.py $mpi; done
.venv/bin/python -m pytest python/tests/vol/test_parallel.py
# Edits of existing files, against h5py's: about an hour.
HYPERCHUNK_EDIT_HISTORIES=10000 HYPERCHUNK_KILLS=1000 .venv/bin/python -m pytest python/tests/write/test_edits.py
# Damaged files: about 20 minutes.
HYPERCHUNK_SALVAGE_CASES=20 .venv/bin/python -m pytest python/tests/test_salvage.py
# Random frames of pandas, against what pandas reads: 4 minutes.
HYPERCHUNK_FRAMES=1000 .venv/bin/python -m pytest python/tests/frames
# h5py's own suite natively and with `hyperchunk env` set (5 minutes), and two processes that race for a file (10 minutes each way).
.venv/bin/python python/tests/vol/suite.py env
HYPERCHUNK_RACE_SECONDS=${HYPERCHUNK_RACE_SECONDS:-600} .venv/bin/python -m pytest --timeout=1500 python/tests/vol/test_search.py -k two_processes
# About an hour and a half on two cores.
HYPERCHUNK_MODEL_HISTORIES=${HYPERCHUNK_MODEL_HISTORIES:-20000} \
    .venv/bin/python -m pytest python/tests/store/test_model.py
