"""Prints results for the topic 'types' of h5py's documentation."""

import h5py
import numpy as np

t = h5py.h5t
for name in (
    "IEEE_F32LE",
    "IEEE_F64BE",
    "STD_I16LE",
    "STD_U64BE",
    "STD_B8LE",
    "C_S1",
    "NATIVE_DOUBLE",
    "IEEE_F16LE",
    "STD_REF_OBJ",
):
    x = getattr(t, name)
    print(name, type(x).__name__, x.get_size(), x.get_class(), getattr(x, "get_order", lambda: None)())
print(
    t.IEEE_F64LE.get_fields(),
    t.IEEE_F64LE.get_ebias(),
    t.STD_I8LE.get_sign(),
    t.STD_U8LE.get_sign(),
    t.IEEE_F32LE.get_norm(),
)
c = t.py_create(np.dtype([("a", "i4"), ("b", "f8", (3,)), ("c", "S5")]))
print(c.get_nmembers(), [c.get_member_name(i) for i in range(3)], [c.get_member_offset(i) for i in range(3)], c.dtype)
print(c.get_member_type(1).get_array_dims(), c.get_member_class(2) == t.STRING, c.get_member_index(b"b"), c.get_size())
s = t.C_S1.copy()
s.set_size(12)
s.set_strpad(t.STR_SPACEPAD)
s.set_cset(t.CSET_UTF8)
print(s.get_size(), s.get_strpad(), s.get_cset(), s.is_variable_str(), t.array_create(t.STD_I32LE, (2, 3)).dtype)
print(t.py_create(np.dtype("i4")) == t.STD_I32LE, t.py_create(h5py.string_dtype(), logical=True).is_variable_str())
