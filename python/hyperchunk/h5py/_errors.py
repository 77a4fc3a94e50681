"""h5py's switches for libhdf5's error messages, which Hyperchunk does not use."""


def silence_errors() -> None:
    """Does nothing: nothing is printed."""


def unsilence_errors() -> None:
    """Does nothing: errors are exceptions, and are not printed."""
