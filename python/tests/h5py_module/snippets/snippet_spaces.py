"""Prints results for the topic 'spaces' of h5py's documentation."""

import h5py

s = h5py.h5s.create_simple((10, 10), (h5py.h5s.UNLIMITED, 20))
print(
    s.get_simple_extent_dims(),
    s.get_simple_extent_dims(True),
    s.get_simple_extent_ndims(),
    s.get_simple_extent_npoints(),
)
s.select_hyperslab((1, 2), (2, 2), (4, 3), (2, 2))
print(s.get_select_npoints(), s.get_select_bounds(), s.get_regular_hyperslab(), s.get_select_hyper_nblocks())
print(s.get_select_hyper_blocklist().tolist(), s.is_regular_hyperslab(), s.get_select_type() == h5py.h5s.SEL_HYPERSLABS)
s.select_elements([(0, 0), (3, 4), (9, 9)])
print(s.get_select_elem_npoints(), s.get_select_elem_pointlist().tolist(), s.get_select_bounds())
s.select_none()
print(
    s.get_select_npoints(),
    h5py.h5s.create(h5py.h5s.SCALAR).get_simple_extent_type(),
    h5py.h5s.create(h5py.h5s.NULL).is_simple(),
)
a, b = h5py.h5s.create_simple((20,)), h5py.h5s.create_simple((20,))
a.select_hyperslab((2,), (6,))
a.select_hyperslab((6,), (6,), op=h5py.h5s.SELECT_OR)
print(a.get_select_npoints(), a.get_select_bounds())
a.select_hyperslab((4,), (4,), op=h5py.h5s.SELECT_NOTB)
print(a.get_select_npoints(), a.get_select_hyper_blocklist().tolist())
