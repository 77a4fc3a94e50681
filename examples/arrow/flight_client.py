"""Reads tables of a Flight server: with pyarrow alone, and with the client of Hyperchunk.

hyperchunk serve --flight --no-token FOLDER &
python examples/arrow/flight_client.py grpc://127.0.0.1:8815 [FILE TABLE]
"""

from __future__ import annotations

import json
import os
import sys

import pyarrow.flight as fl


def main(url: str, *chosen: str) -> None:
    """Lists the served tables, then reads one."""
    token = os.environ.get("HYPERCHUNK_TOKEN")
    options = fl.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())] if token else [])
    with fl.connect(url) as client:
        for info in client.list_flights(options=options):
            file, *path = (part.decode() for part in info.descriptor.path)
            print(f"{file}:/{'/'.join(path)}  {info.total_records} rows  {', '.join(info.schema.names)}")
            chosen = chosen or (file, "/".join(path))
        file, table = chosen
        ticket = {"file": file, "table": table, "rows": [0, None]}
        found = client.do_get(fl.Ticket(json.dumps(ticket)), options).read_all()
        print(found.schema.to_string(show_field_metadata=False, show_schema_metadata=False))

    import hyperchunk
    from hyperchunk.arrow import RemoteTable

    remote = RemoteTable(f"{url}/{file}", table)
    assert remote.to_pyarrow().num_rows == found.num_rows
    with hyperchunk.open(f"{url}/{file}") as opened:
        print(f"{file} has {', '.join(opened)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
