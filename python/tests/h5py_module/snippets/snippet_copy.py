"""Prints results for the topic 'copy' of h5py's documentation."""

import h5py
import numpy as np

with h5py.File("a.h5", "w") as a, h5py.File("b.h5", "w") as b:
    a["g/x"] = np.arange(5)
    a["g"].attrs["k"] = "v"
    a.copy("g", b)
    a.copy(a["g/x"], b["g"], name="again")
    a.copy("g", "h", without_attrs=True)
    b.create_dataset_like("like", b["g/x"], dtype="f4")
    print(sorted(b), sorted(b["g"]), b["g"].attrs["k"], list(a["h"].attrs), b["like"], a.move("h", "i"), sorted(a))
    r = b.require_dataset("g/x", (5,), "i8")
    print(r[:], b.require_group("g").name)
    for bad in (
        lambda: b.require_dataset("g/x", (6,), "i8"),
        lambda: b.require_group("like"),
        lambda: a["none"],
        lambda: b.create_group("g"),
    ):
        try:
            bad()
        except (TypeError, KeyError, ValueError) as error:
            print(
                type(error).__mro__[-4].__name__ if False else isinstance(error, TypeError),
                isinstance(error, KeyError),
                isinstance(error, ValueError),
            )
