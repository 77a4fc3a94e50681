"""The low-level interface: files, groups, dataspaces, property lists and datasets without the classes above."""

import h5py
import numpy as np
from h5py import h5a, h5d, h5f, h5g, h5i, h5l, h5o, h5p, h5s, h5t

fid = h5f.create(b"low.h5", h5f.ACC_TRUNC)
gid = h5g.create(fid, b"group")
space = h5s.create_simple((6, 4), (h5s.UNLIMITED, 4))
plist = h5p.create(h5p.DATASET_CREATE)
plist.set_chunk((3, 4))
plist.set_deflate(6)
plist.set_shuffle()
plist.set_fill_value(np.array(5, "i4"))
plist.set_fill_time(h5d.FILL_TIME_ALLOC)
plist.set_alloc_time(h5d.ALLOC_TIME_INCR)
did = h5d.create(gid, b"data", h5t.NATIVE_INT32, space, plist)
did.write(h5s.ALL, h5s.ALL, np.arange(24, dtype="i4").reshape(6, 4))
did.set_extent((8, 4))
aid = h5a.create(did, b"unit", h5t.py_create(np.dtype("S3")), h5s.create(h5s.SCALAR))
aid.write(np.array(b"km"))
lcpl = h5p.create(h5p.LINK_CREATE)
lcpl.set_create_intermediate_group(True)
h5g.create(fid, b"a/b/c", lcpl=lcpl)
gid.links.create_soft(b"soft", b"/group/data")
gid.links.create_hard(b"hard", gid, b"data")
h5f.flush(fid, h5f.SCOPE_GLOBAL)
print(
    h5i.get_type(fid) == h5i.FILE, h5i.get_type(gid) == h5i.GROUP, h5i.get_type(did) == h5i.DATASET, h5i.get_name(did)
)
out = np.empty((8, 4), "i4")
did.read(h5s.ALL, h5s.ALL, out)
print(out, did.shape, did.rank, did.dtype, did.get_space().get_simple_extent_dims(True))
got = did.get_create_plist()
print(
    got.get_chunk(),
    got.get_layout() == h5d.CHUNKED,
    got.get_nfilters(),
    got.get_filter(1),
    got.get_fill_time(),
    got.get_alloc_time(),
)
fill = np.zeros((), "i4")
got.get_fill_value(fill)
print(fill, got.fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED, aid.name, aid.shape, aid.dtype)
value = np.empty((), "S3")
aid.read(value)
print(value, h5a.exists(did, b"unit"), h5a.get_num_attrs(did), gid.links.get_info(b"soft").type == h5l.TYPE_SOFT)
print(
    gid.get_num_objs(),
    [gid.get_objname_by_idx(n) for n in range(3)],
    gid.get_linkval(b"soft"),
    list(gid),
    b"data" in gid,
)
part = h5s.create_simple((8, 4))
part.select_hyperslab((0, 1), (2, 1), stride=(4, 2), block=(1, 2))
print(
    part.get_select_npoints(),
    part.get_select_hyper_blocklist(),
    part.is_regular_hyperslab(),
    part.get_regular_hyperslab(),
)
part.select_elements([(0, 0), (7, 3)])
print(part.get_select_elem_pointlist(), part.get_select_type() == h5s.SEL_POINTS, part.select_valid())
part.select_none()
part.select_hyperslab((1, 0), (1, 4), op=h5s.SELECT_OR)
part.select_hyperslab((3, 0), (1, 4), op=h5s.SELECT_OR)
rows = np.empty((2, 4), "i4")
did.read(h5s.create_simple((2, 4)), part, rows)
print(rows, part.get_select_bounds(), part.copy().get_select_npoints(), part.shape)
info = h5o.get_info(did)
print(info.type == h5o.TYPE_DATASET, info.rc, info.num_attrs, h5o.exists_by_name(fid, b"group/data"))
opened = h5o.open(fid, b"group/data")
print(type(opened).__name__, opened == did, hash(opened) == hash(did), h5d.open(fid, b"/group/hard") == did)
seen = []
h5o.visit(fid, lambda name: seen.append(name))
h5l_seen = []
gid.links.iterate(lambda name: h5l_seen.append(name))
print(seen, h5l_seen, h5g.open(fid, b"a/b").get_num_objs())
kind = h5t.create(h5t.COMPOUND, 12)
kind.insert(b"a", 0, h5t.STD_I32LE)
kind.insert(b"b", 4, h5t.IEEE_F64LE)
kind.commit(fid, b"type")
print(kind.dtype, kind.committed(), h5t.open(fid, b"type") == kind, kind.get_nmembers(), kind.get_member_index(b"b"))
array = h5t.array_create(h5t.STD_U8LE, (2, 3))
print(
    array.dtype, array.get_array_ndims(), array.get_array_dims(), h5t.vlen_create(h5t.STD_I16LE).get_class() == h5t.VLEN
)
gid.unlink(b"soft")
gid.links.move(b"hard", gid, b"firm")
print(list(gid), fid.name, fid.get_intent(), did.get_storage_size() > 0, did.get_offset())
print(h5py.Dataset(did)[0], h5py.Group(gid)["firm"].shape, h5py.File(fid).mode)
fid.close()
print(h5f.is_hdf5(b"low.h5"))
