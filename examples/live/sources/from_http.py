"""Current data of a weather service. The dataset `server` names the service; the reader's profile grants it."""

import json


def dynamic_dataset():
    latest = lib.getData("Latest")
    server = lib.string(lib.getData("server")[0])
    readings = json.loads(lib.http_get(f"http://{server}/latest"))
    for n in range(lib.getDims("Latest")[0]):
        lib.setString(latest[n].station, readings[n]["station"])
        latest[n].count = readings[n]["count"]
        latest[n].temperature = readings[n]["temperature"]
