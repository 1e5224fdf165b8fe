"""A hub, devices and the lines between them, in a temporary folder. Each program can be one of another commit."""
import pathlib, shutil, signal, tempfile

from devices import Device
from hubs import Hub
from processes import tail


class Site:
    """One hub and its devices; everything ends and goes with it."""

    def __init__(self, hub_programs, entities, engine=None, environment=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="compat-"))
        self.devices, self.environment = {}, environment or {}
        database = engine.new_database() if engine else None
        self.hub = Hub(hub_programs, self.folder / "hub", entities, database, self.environment)
        self.hubs = [self.hub]
        self.hub.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for device in self.devices.values():
            if device.process: device.process.end(signal.SIGKILL)
            device.line.close()
        for hub in self.hubs: hub.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def add_replica(self, programs, entities):
        """A second hub over the same database and the same folder of files."""
        replica = Hub(programs, self.folder / "hub-2", entities, self.hub.database, self.environment)
        replica.data = self.hub.data
        self.hubs.append(replica)
        replica.start()

    def device(self, programs, name, **more):
        device = Device(programs, name, self.hub, self.folder / name, environment=self.environment, **more)
        self.devices[name] = device
        device.start()
        return device

    def settle(self, *devices):
        """Twice: the first round sends, the second one reads what the others have sent."""
        for _ in range(2):
            for device in devices or self.devices.values(): device.settle()

    def logs(self):
        places = [*(hub.folder / "log" for hub in self.hubs), *(device.folder / "log" for device in self.devices.values())]
        return "\n".join(f"--- {place.parent.name}\n{tail(place, 12)}" for place in places if place.exists())
