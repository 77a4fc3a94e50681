"""A table of a PostgreSQL server as a dataset. The password is in a file that the profile grants, not in this one."""

from pathlib import Path

import pg8000.native


def dynamic_dataset():
    quakes = lib.getData("Quakes")
    server = lib.string(lib.getData("server")[0])
    _, _, database, user, password = Path(str(lib.getFilePath())).with_name("pgpass").read_text().strip().split(":")
    connection = pg8000.native.Connection(user, database=database, password=password, sock=lib.connect(server))
    rows = connection.run("SELECT id, place, magnitude FROM quakes ORDER BY id LIMIT :n", n=lib.getDims("Quakes")[0])
    connection.close()
    for n, (number, place, magnitude) in enumerate(rows):
        quakes[n].id = number
        lib.setString(quakes[n].place, place)
        quakes[n].magnitude = magnitude
