"""Messages of libhdf5, of which there are none."""


def silence_errors() -> None:
    """Does nothing: nothing is printed."""


def unsilence_errors() -> None:
    """Does nothing: errors are exceptions, and are not printed."""
