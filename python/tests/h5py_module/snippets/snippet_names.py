"""Prints results for the topic 'names' of h5py's documentation."""

import h5py
import h5py._hl.attrs
import h5py._hl.base
import h5py._hl.dataset
import h5py._hl.files
import h5py._hl.group
import h5py._hl.selections
import numpy as np
from h5py import h5f

with h5py.File("a.h5", "w") as f:
    f["g/x"] = 1
    print(
        isinstance(f, h5py._hl.files.File),
        isinstance(f["g"], h5py._hl.group.Group),
        isinstance(f["g/x"], h5py._hl.dataset.Dataset),
    )
    print(
        isinstance(f.attrs, h5py.AttributeManager),
        isinstance(f["g/x"], h5py._hl.base.HLObject),
        type(f["g/x"]) is h5py.Dataset,
    )
    print(h5py.Dataset(f["g/x"].id), h5py.Group(f["g"].id), h5py.File(f.id), h5py.Dataset.__module__, h5py.__name__)
    print(issubclass(h5py.File, h5py.Group), f.id.get_intent() == h5f.ACC_RDWR, f.id.get_create_plist().get_userblock())
print(
    h5py.check_string_dtype(h5py.string_dtype("ascii", 5)),
    h5py.h5t.check_string_dtype(np.dtype("S3")),
    h5py.version.hdf5_version_tuple >= (1, 10),
)
print(
    h5py.get_config().complex_names,
    h5py.get_config().track_order,
    h5py.UNLIMITED,
    sorted(h5py.registered_drivers())[:3],
)
