"""Keeps the order of creation of members and attributes."""

import h5py

names = ["zebra", "apple", "mango", "10", "9"]
with h5py.File("order.h5", "w", track_order=True) as file:
    for number, name in enumerate(names):
        file.attrs[name] = number
        file.create_group(name)
    inner = file.create_group("inner", track_order=True)
    plain = file.create_group("plain", track_order=False)
    data = file.create_dataset("data", data=[1], track_order=True)
    for name in names:
        inner[name], plain[name] = 1, 2
        inner.attrs[name] = plain.attrs[name] = data.attrs[name] = name
    for number in range(20):
        data.attrs[f"many {20 - number}"] = number
    print(list(file), list(inner), list(plain), list(file.attrs), list(plain.attrs))
with h5py.File("order.h5", "r+", track_order=True) as file:
    print(list(file), list(file["inner"]), list(file["plain"]), list(file.attrs), list(reversed(file["inner"])))
    print(list(file["data"].attrs), next(iter(file["inner"].items()))[0], list(file["inner"].attrs.values()))
    del file["inner/apple"]
    file["inner/apple"] = 3
    del file["data"].attrs["mango"]
    file["data"].attrs["mango"] = "again"
    print(list(file["inner"]), list(file["data"].attrs)[-2:], len(file["data"].attrs))
    inner = file["inner"]
    print(inner.id.get_create_plist().get_link_creation_order())
    found = []
    inner.id.links.iterate(found.append, idx_type=h5py.h5.INDEX_CRT_ORDER)
    print(found)
with h5py.File("order.h5") as file:
    print(list(file["inner"]), list(file["plain"]))
config = h5py.get_config()
config.track_order = True
with h5py.File("config.h5", "w") as file:
    for name in names:
        file[name] = 1
    print(list(file))
config.track_order = False
with h5py.File("plain.h5", "w") as file:
    for name in names:
        file[name] = 1
    print(list(file))
