"""kafka-python's part of the black-box tests; see README.md of the folder above. The version that Debian packages has
no idempotent producer, cannot delete records, and fetches by a version that no broker answers with zstd; snappy and lz4
are Python modules of their own."""

import os
import threading
import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic

BOOTSTRAP, NAME, COLD = os.environ["BOOTSTRAP"], os.environ["NAME"], os.environ["COLD_TOPIC"]
COLD_COUNT, COLD_MS = int(os.environ["COLD_COUNT"]), int(os.environ["COLD_MS"])
LIMIT = 120

admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP, request_timeout_ms=60000)


def check(holds, what):
    if not holds:
        raise SystemExit(f"kafka-python: {what}")


def create(topic, partitions, config=None):
    admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=config or {})])


def fill(topic, codec, count):
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, acks="all", compression_type=codec, linger_ms=50)
    sent = [producer.send(topic, key=f"k{i}".encode(), value=f"v{i}".ljust(200).encode()) for i in range(count)]
    for f in sent:
        f.get(LIMIT)
    producer.close()


def read(topic, start, count):
    c = KafkaConsumer(bootstrap_servers=BOOTSTRAP, enable_auto_commit=False, auto_offset_reset="earliest", fetch_max_wait_ms=200)
    tp = TopicPartition(topic, 0)
    c.assign([tp])
    c.seek(tp, start)
    got, end = [], time.monotonic() + LIMIT
    while len(got) < count and time.monotonic() < end:
        for records in c.poll(200).values():
            got.extend(records)
    c.close()
    check(len(got) >= count, f"{topic}: read {len(got)} of {count} from {start}")
    return got[:count]


def codecs():
    for codec in ("none", "gzip", "snappy", "lz4"):
        topic = f"{NAME}-{codec}"
        create(topic, 1)
        fill(topic, None if codec == "none" else codec, 100)
        for i, m in enumerate(read(topic, 0, 100)):
            check((m.offset, m.key.decode(), m.value.decode().strip()) == (i, f"k{i}", f"v{i}"), f"{topic}: message {i}")


class Member(threading.Thread):
    """One of a group. Its poll blocks while the group waits for the others, so each has a thread."""

    def __init__(self, seen):
        super().__init__(daemon=True)
        self.seen, self.share, self.leaving = seen, 0, False
        self.start()

    def run(self):
        c = KafkaConsumer(f"{NAME}-group", bootstrap_servers=BOOTSTRAP, group_id=f"{NAME}-g", enable_auto_commit=False,
                          auto_offset_reset="earliest", session_timeout_ms=30000, heartbeat_interval_ms=300,
                          fetch_max_wait_ms=200)
        while not self.leaving:
            got = [r for records in c.poll(100).values() for r in records]
            for r in got:
                self.seen[r.key] = self.seen.get(r.key, 0) + 1
            if got:
                c.commit()
            self.share = len(c.assignment())
        c.close()

    def leave(self):
        self.leaving = True
        self.join(LIMIT)
        check(not self.is_alive(), "a member does not leave")


def until(holds, what):
    end = time.monotonic() + LIMIT
    while not holds():
        check(time.monotonic() < end, f"{what}: not in time")
        time.sleep(0.02)


def groups():
    topic = f"{NAME}-group"
    create(topic, 4)
    seen = {}
    a, b = Member(seen), Member(seen)
    until(lambda: a.share == 2 and b.share == 2, "two shares")
    fill(topic, None, 200)
    until(lambda: len(seen) == 200, "all records of the group")
    b.leave()
    until(lambda: a.share == 4, "the share of the one that stayed")
    a.leave()
    check(set(seen.values()) == {1}, "a record came twice")
    committed = admin.list_consumer_group_offsets(f"{NAME}-g")
    check(sum(o.offset for o in committed.values()) == 200, f"committed {committed}")


def by_time():
    at = COLD_COUNT // 3
    tp = TopicPartition(COLD, 0)
    c = KafkaConsumer(bootstrap_servers=BOOTSTRAP)
    found = c.offsets_for_times({tp: COLD_MS + 1000 * at - 500})[tp]
    check(found.offset == at and found.timestamp == COLD_MS + 1000 * at, f"time lookup gives {found}")
    beyond = c.offsets_for_times({tp: COLD_MS * 2})[tp]
    check(beyond is None, f"time lookup beyond the end gives {beyond}")
    c.close()
    check(read(COLD, at, 1)[0].value.decode().strip() == f"cold-{at:06d}", "seek by time")


def cold():
    for i, m in enumerate(read(COLD, 0, COLD_COUNT)):
        check((m.offset, m.value.decode().strip(), m.timestamp) == (i, f"cold-{i:06d}", COLD_MS + 1000 * i), f"cold message {i}")


def retention(topic):
    (answer,) = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    return {e[0]: e[1] for e in answer.resources[0][4]}["retention.ms"]


def administer():
    topic = f"{NAME}-admin"
    create(topic, 3, {"retention.ms": "86400000"})
    check(len(admin.describe_topics([topic])[0]["partitions"]) == 3, "partitions")
    check(retention(topic) == "86400000", "retention.ms after creation")
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "3600000"})])
    check(retention(topic) == "3600000", "retention.ms after the change")
    admin.create_partitions({topic: NewPartitions(4)})
    check(len(admin.describe_topics([topic])[0]["partitions"]) == 4, "partitions after they were added")
    check(f"{NAME}-g" in [g[0] for g in admin.list_consumer_groups()], "the group is not listed")
    admin.describe_consumer_groups([f"{NAME}-g"])
    admin.delete_consumer_groups([f"{NAME}-g"])
    check(f"{NAME}-g" not in [g[0] for g in admin.list_consumer_groups()], "the group is still listed")
    admin.delete_topics([topic])
    check(topic not in admin.list_topics(), "the deleted topic is listed")


for step in (codecs, groups, by_time, cold, administer):
    step()
