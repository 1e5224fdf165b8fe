"""Compares what the devices of deploy/ha-drill were told with what the database has."""
import json

#: Keys of both forms, and those that the hub has not moved yet from the table of schema 13.
KEYS = """SELECT d.device, CAST(k.key AS TEXT), k.status, k.version FROM mutation_key k JOIN device_number d ON d.number = k.device
UNION ALL SELECT d.device, k.key, k.status, k.version FROM mutation_key_text k JOIN device_number d ON d.number = k.device
UNION ALL SELECT device, key, status, version FROM mutation_key_earlier"""


def judge(site, pushers, pullers, epoch):
    """The mistakes, and the counts for the table. The pushers must have no push under way."""
    mistakes = [mistake for device in (*pushers, *pullers) for mistake in device.mistakes]
    keys = {}
    for line in site.sql(KEYS):
        device, key, status, version = line.split("\t")
        keys[key] = (device, int(status), int(version))
    records = {}
    for line in site.sql("SELECT entity, id, version, origin_key, data FROM record WHERE data IS NOT NULL"):
        entity, record, version, origin, data = line.split("\t", 4)
        records[entity, record] = (int(version), origin, json.loads(data))
    acknowledged = {key: place for pusher in pushers for key, place in pusher.acknowledged.items()}

    lost = [key for key in acknowledged if keys.get(key, ("", -1, 0))[1] != 0]
    made = {place: key for key, place in acknowledged.items() if place[0] == "parts"}
    missing = [place for place in made if place not in records]
    mistakes += listed(lost, "acknowledged, and their keys are not in the database")
    mistakes += listed(missing, "acknowledged, and their records are not in the database")
    mistakes += listed([key for key in keys if key not in acknowledged and key.startswith("k-")], "keys that no device sent to its end")
    mistakes += listed([place for place in records if place[0] == "parts" and place not in made], "records that no device was told of")
    # The version and the key of a record say which mutation made it.
    wrong = [place for place, key in made.items() if place in records and key in keys
             and (records[place][0], records[place][1]) != (keys[key][2], key)]
    mistakes += listed(wrong, "records that are not what their mutation made")

    counted = records.get(("counters", "all"), (0, "", {"n": 0}))[2]["n"]
    increments = sum(place[0] == "counters" for place in acknowledged.values())
    if counted != increments: mistakes.append(f"the counter of all devices says {counted} after {increments} acknowledged increments")
    for pusher in pushers:
        state = records.get(("states", pusher.name), (0, "", {"round": 0}))[2]["round"]
        if pusher.times and state != pusher.round: mistakes.append(f"{pusher.name} wrote round {pusher.round}, and the record has {state}")

    epochs = set(site.sql("SELECT epoch FROM hub")) | {found for device in (*pushers, *pullers) for found in device.epochs}
    causes = [line for line in site.sql("SELECT cause FROM lineage ORDER BY n") if line not in ("created", "opened")]
    if epochs != {epoch} or causes:
        mistakes.append(f"new histories: {', '.join(causes) or 'unknown cause'}; epochs {', '.join(sorted(epochs))}")
    for puller in pullers:
        unseen = [place for place, (version, _, data) in records.items()
                  if place[0] in puller.ENTITIES and puller.seen.get(place) != (version, data)]
        mistakes += listed(unseen, f"records that {puller.name} has not seen as they are")
    return mistakes, {"acknowledged": len(acknowledged), "lost": len(set(lost)), "histories": len(epochs)}


def listed(found, what):
    return [f"{len(found)} {what}: {', '.join(map(str, found[:3]))}{' …' if len(found) > 3 else ''}"] if found else []
