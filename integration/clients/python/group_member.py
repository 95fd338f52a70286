"""A member of a consumer group by librdkafka, with its defaults but for where to begin. It prints what happens to it, a line each:
"assigned 0,1", "at PARTITION OFFSET" for what it has consumed, "fatal NAME"; it ends with its standard input."""

import os
import select
import sys

from confluent_kafka import Consumer, KafkaError


def say(*words):
    print(*words, flush=True)


def assigned(_, partitions):
    say("assigned", ",".join(str(p.partition) for p in sorted(partitions, key=lambda p: p.partition)) or "-")


config = {
    "bootstrap.servers": os.environ["BOOTSTRAP"],
    "group.id": os.environ["GROUP"],
    "auto.offset.reset": "earliest",
    "session.timeout.ms": int(os.environ.get("SESSION_MS", "45000")),
}
if os.environ.get("INSTANCE"):
    config["group.instance.id"] = os.environ["INSTANCE"]
consumer = Consumer(config)
consumer.subscribe([os.environ["TOPIC"]], on_assign=assigned)
while not select.select([sys.stdin], [], [], 0)[0]:
    message = consumer.poll(0.1)
    if message is None:
        continue
    if message.error() is None:
        say("at", message.partition(), message.offset())
    elif message.error().code() == KafkaError._FATAL:
        say("fatal", message.error().name())
        break
consumer.close()
