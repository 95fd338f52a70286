"""librdkafka's part of the black-box tests, by its Python client; see README.md of the folder above."""

import os
import time

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

BOOTSTRAP, NAME, COLD = os.environ["BOOTSTRAP"], os.environ["NAME"], os.environ["COLD_TOPIC"]
COLD_COUNT, COLD_MS = int(os.environ["COLD_COUNT"]), int(os.environ["COLD_MS"])
LIMIT = 120

admin = AdminClient({"bootstrap.servers": BOOTSTRAP})


def check(holds, what):
    if not holds:
        raise SystemExit(f"librdkafka: {what}")


def done(futures):
    for f in futures.values():
        f.result(LIMIT)


def create(topic, partitions, config=None):
    done(admin.create_topics([NewTopic(topic, partitions, 1, config=config or {})]))


def fill(topic, codec, count):
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True, "acks": "all",
                         "compression.type": codec, "linger.ms": 50, "message.timeout.ms": 1000 * LIMIT})
    failed = []
    for i in range(count):
        producer.produce(topic, key=f"k{i}", value=f"v{i}".ljust(200), on_delivery=lambda err, _: err and failed.append(err))
    check(producer.flush(LIMIT + 5) == 0 and not failed, f"{topic}: produce {failed[:1]}")


def consumer(group):
    return Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": group, "auto.offset.reset": "earliest",
                     "enable.auto.commit": False, "session.timeout.ms": 30000, "heartbeat.interval.ms": 300,
                     "fetch.wait.max.ms": 200, "enable.partition.eof": False})


def message(c, timeout=0.2):
    m = c.poll(timeout)
    if m is not None and m.error():
        check(m.error().retriable() or m.error().code() == KafkaError._ALL_BROKERS_DOWN, f"poll: {m.error()}")
        return None
    return m


def read(topic, start, count):
    c = consumer(f"{NAME}-unused")
    c.assign([TopicPartition(topic, 0, start)])
    got, end = [], time.monotonic() + LIMIT
    while len(got) < count and time.monotonic() < end:
        m = message(c)
        if m is not None:
            got.append(m)
    c.close()
    check(len(got) == count, f"{topic}: read {len(got)} of {count} from {start}")
    return got


def codecs():
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        topic = f"{NAME}-{codec}"
        create(topic, 1)
        fill(topic, codec, 100)
        for i, m in enumerate(read(topic, 0, 100)):
            check((m.offset(), m.key().decode(), m.value().decode().strip()) == (i, f"k{i}", f"v{i}"), f"{topic}: message {i}")


def groups():
    topic = f"{NAME}-group"
    create(topic, 4)
    shares, seen = {}, {}
    # It begins with committed offsets: one that finds none asks for the log's beginning, and if the partition is revoked before
    # the answer it asks again later, and may read from there what it has committed meanwhile (client_kcat_test.go).
    first = consumer(f"{NAME}-g")
    first.commit(offsets=[TopicPartition(topic, p, 0) for p in range(4)], asynchronous=False)
    first.close()
    members = {"a": consumer(f"{NAME}-g"), "b": consumer(f"{NAME}-g")}
    for name, c in members.items():
        def assigned(c, partitions, name=name):
            shares[name] = len(partitions)
            c.assign(partitions)

        c.subscribe([topic], on_assign=assigned)

    def take(wanted, what):
        end = time.monotonic() + LIMIT
        while not wanted():
            check(time.monotonic() < end, f"{what}: shares {shares}, {len(seen)} records")
            for c in members.values():
                m = message(c, 0.02)
                if m is not None:
                    seen[m.key()] = seen.get(m.key(), 0) + 1
                    c.commit(m, asynchronous=False)

    take(lambda: shares.get("a") == 2 and shares.get("b") == 2, "two shares")
    fill(topic, "none", 200)
    take(lambda: len(seen) == 200, "all records of the group")
    check(set(seen.values()) == {1}, "a record came twice")
    members.pop("b").close()
    take(lambda: shares["a"] == 4, "the share of the one that stayed")
    committed = members["a"].committed([TopicPartition(topic, p) for p in range(4)], timeout=LIMIT)
    check(sum(max(p.offset, 0) for p in committed) == 200, f"committed {committed}")
    members["a"].close()


def by_time():
    at = COLD_COUNT // 3
    c = consumer(f"{NAME}-unused")
    found = c.offsets_for_times([TopicPartition(COLD, 0, COLD_MS + 1000 * at - 500)], timeout=LIMIT)
    check(found[0].offset == at, f"time lookup gives {found}")
    c.close()
    check(read(COLD, at, 1)[0].value().decode().strip() == f"cold-{at:06d}", "seek by time")


def cold():
    for i, m in enumerate(read(COLD, 0, COLD_COUNT)):
        check((m.offset(), m.value().decode().strip(), m.timestamp()[1]) == (i, f"cold-{i:06d}", COLD_MS + 1000 * i), f"cold message {i}")


def administer():
    topic = f"{NAME}-admin"
    create(topic, 3, {"retention.ms": "86400000"})
    resource = ConfigResource("topic", topic)

    def retention():
        return admin.describe_configs([resource])[resource].result(LIMIT)["retention.ms"].value

    check(retention() == "86400000", "retention.ms after creation")
    resource.set_config("retention.ms", "3600000")
    done(admin.alter_configs([resource]))
    check(retention() == "3600000", "retention.ms after the change")
    done(admin.create_partitions([NewPartitions(topic, 4)]))
    check(len(admin.list_topics(topic, timeout=LIMIT).topics[topic].partitions) == 4, "partitions after they were added")
    # The version that Debian packages cannot delete groups or records; the other clients do.
    check(f"{NAME}-g" in [g.id for g in admin.list_groups(timeout=LIMIT)], "the group is not listed")
    check(admin.list_groups(f"{NAME}-g", timeout=LIMIT)[0].protocol_type == "consumer", "the group is not described")
    done(admin.delete_topics([topic]))
    check(topic not in admin.list_topics(timeout=LIMIT).topics, "the deleted topic is listed")


for step in (codecs, groups, by_time, cold, administer):
    step()
