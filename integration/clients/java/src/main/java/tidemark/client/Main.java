package tidemark.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The Java client's part of the black-box tests; see README.md of the folder "clients". */
public final class Main {
    private static final String BOOTSTRAP = System.getenv("BOOTSTRAP");
    private static final String NAME = System.getenv("NAME");
    private static final String COLD = System.getenv("COLD_TOPIC");
    private static final int COLD_COUNT = Integer.parseInt(System.getenv("COLD_COUNT"));
    private static final long COLD_MS = Long.parseLong(System.getenv("COLD_MS"));
    private static final Duration POLL = Duration.ofMillis(200);
    private static final long LIMIT_NS = 120_000_000_000L;

    private Main() {}

    public static void main(String[] args) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", BOOTSTRAP))) {
            for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
                codec(admin, codec);
            }
            group(admin);
            time();
            cold();
            administer(admin);
        }
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException(what);
        }
    }

    private static KafkaProducer<String, String> producer(String codec) {
        Properties p = new Properties();
        p.put("bootstrap.servers", BOOTSTRAP);
        p.put("acks", "all");
        p.put("enable.idempotence", "true");
        p.put("compression.type", codec);
        p.put("linger.ms", "50");
        p.put("delivery.timeout.ms", "120000");
        p.put("request.timeout.ms", "30000");
        return new KafkaProducer<>(p, new StringSerializer(), new StringSerializer());
    }

    private static KafkaConsumer<String, String> consumer(String group) {
        Properties p = new Properties();
        p.put("bootstrap.servers", BOOTSTRAP);
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        p.put("session.timeout.ms", "30000");
        p.put("heartbeat.interval.ms", "300");
        if (group != null) {
            p.put("group.id", group);
        }
        return new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer());
    }

    private static void create(Admin admin, String topic, int partitions, Map<String, String> configs) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(configs))).all().get();
    }

    private static void fill(String topic, String codec, int count) throws Exception {
        try (KafkaProducer<String, String> producer = producer(codec)) {
            List<java.util.concurrent.Future<?>> sent = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, "k" + i, String.format("%-200s", "v" + i))));
            }
            for (java.util.concurrent.Future<?> f : sent) {
                f.get();
            }
        }
    }

    private static List<ConsumerRecord<String, String>> read(String topic, long from, int count) {
        try (KafkaConsumer<String, String> c = consumer(null)) {
            TopicPartition tp = new TopicPartition(topic, 0);
            c.assign(List.of(tp));
            c.seek(tp, from);
            List<ConsumerRecord<String, String>> out = new ArrayList<>();
            for (long end = System.nanoTime() + LIMIT_NS; out.size() < count && System.nanoTime() < end; ) {
                c.poll(POLL).forEach(out::add);
            }
            check(out.size() >= count, topic + ": read " + out.size() + " of " + count);
            return out;
        }
    }

    private static void codec(Admin admin, String codec) throws Exception {
        String topic = NAME + "-" + codec;
        create(admin, topic, 1, Map.of());
        fill(topic, codec, 100);
        List<ConsumerRecord<String, String>> got = read(topic, 0, 100);
        for (int i = 0; i < 100; i++) {
            check(got.get(i).offset() == i && got.get(i).key().equals("k" + i)
                    && got.get(i).value().trim().equals("v" + i), topic + ": record " + i + " is " + got.get(i));
        }
    }

    private static void group(Admin admin) throws Exception {
        String topic = NAME + "-group";
        create(admin, topic, 4, Map.of());
        fill(topic, "none", 200);
        Set<String> seen = new HashSet<>();
        try (KafkaConsumer<String, String> a = consumer(NAME + "-g")) {
            try (KafkaConsumer<String, String> b = consumer(NAME + "-g")) {
                a.subscribe(List.of(topic));
                b.subscribe(List.of(topic));
                long end = System.nanoTime() + LIMIT_NS;
                // Records that come before both have their share are read and committed by whoever had them then.
                while ((a.assignment().size() != 2 || b.assignment().size() != 2 || seen.size() < 200) && System.nanoTime() < end) {
                    take(a, seen);
                    take(b, seen);
                }
                check(a.assignment().size() == 2 && b.assignment().size() == 2, "shares " + a.assignment() + " " + b.assignment());
                check(seen.size() == 200, "the group got " + seen.size() + " records of 200");
            }
            long end = System.nanoTime() + LIMIT_NS;
            while (a.assignment().size() != 4 && System.nanoTime() < end) {
                check(a.poll(POLL).isEmpty(), "a record came again after the rebalance");
            }
            check(a.assignment().size() == 4, "the one that stayed has " + a.assignment());
        }
        Map<TopicPartition, OffsetAndMetadata> committed =
                admin.listConsumerGroupOffsets(NAME + "-g").partitionsToOffsetAndMetadata().get();
        check(committed.values().stream().mapToLong(OffsetAndMetadata::offset).sum() == 200, "committed " + committed);
    }

    private static void take(KafkaConsumer<String, String> c, Set<String> seen) {
        for (ConsumerRecord<String, String> r : c.poll(POLL)) {
            check(seen.add(r.key()), "record " + r.key() + " came twice");
        }
        try {
            c.commitSync();
        } catch (org.apache.kafka.clients.consumer.CommitFailedException | org.apache.kafka.common.errors.RebalanceInProgressException e) {
            // The next poll joins again; what this member had read was committed by the poll before.
        }
    }

    private static void time() {
        int at = COLD_COUNT / 3;
        try (KafkaConsumer<String, String> c = consumer(null)) {
            TopicPartition tp = new TopicPartition(COLD, 0);
            OffsetAndTimestamp found = c.offsetsForTimes(Map.of(tp, COLD_MS + 1000L * at - 500)).get(tp);
            check(found != null && found.offset() == at && found.timestamp() == COLD_MS + 1000L * at, "time lookup gives " + found);
            Map<TopicPartition, OffsetAndTimestamp> none = c.offsetsForTimes(Map.of(tp, Long.MAX_VALUE / 2));
            check(none.get(tp) == null, "time lookup beyond the end gives " + none);
        }
        check(read(COLD, at, 1).get(0).value().trim().equals(String.format("cold-%06d", at)), "seek by time");
    }

    private static void cold() {
        List<ConsumerRecord<String, String>> got = read(COLD, 0, COLD_COUNT);
        for (int i = 0; i < COLD_COUNT; i++) {
            check(got.get(i).offset() == i && got.get(i).value().trim().equals(String.format("cold-%06d", i))
                    && got.get(i).timestamp() == COLD_MS + 1000L * i, "cold record " + i + " is " + got.get(i));
        }
    }

    private static void administer(Admin admin) throws Exception {
        String topic = NAME + "-admin";
        create(admin, topic, 3, Map.of("retention.ms", "86400000"));
        TopicDescription d = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        check(d.partitions().size() == 3 && d.partitions().get(0).leader() != null, "described as " + d);
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        check(config(admin, resource, "retention.ms").equals("86400000"), "retention.ms after creation");
        admin.incrementalAlterConfigs(Map.of(resource,
                List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "3600000"), AlterConfigOp.OpType.SET)))).all().get();
        check(config(admin, resource, "retention.ms").equals("3600000"), "retention.ms after the change");
        admin.createPartitions(Map.of(topic, org.apache.kafka.clients.admin.NewPartitions.increaseTo(4))).all().get();
        check(!admin.describeCluster().nodes().get().isEmpty(), "the cluster has no nodes");
        check(!admin.describeLogDirs(List.of(1)).allDescriptions().get().isEmpty(), "no log folders");

        TopicPartition tp = new TopicPartition(NAME + "-none", 0);
        admin.deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(50))).all().get();
        check(admin.listOffsets(Map.of(tp, OffsetSpec.earliest())).partitionResult(tp).get().offset() == 50, "start after deleteRecords");
        check(admin.listOffsets(Map.of(tp, OffsetSpec.maxTimestamp())).partitionResult(tp).get().offset() >= 50, "max timestamp");
        TopicPartition coldPartition = new TopicPartition(COLD, 0);
        long local = admin.listOffsets(Map.of(coldPartition, OffsetSpec.earliestLocal())).partitionResult(coldPartition).get().offset();
        long tiered = admin.listOffsets(Map.of(coldPartition, OffsetSpec.latestTiered())).partitionResult(coldPartition).get().offset();
        check(local > 0 && tiered >= local - 1, "local start " + local + ", last tiered " + tiered);

        check(admin.listGroups().all().get().stream().anyMatch(g -> g.groupId().equals(NAME + "-g")), "the group is not listed");
        admin.describeConsumerGroups(List.of(NAME + "-g")).all().get();
        admin.deleteConsumerGroups(List.of(NAME + "-g")).all().get();
        check(admin.listGroups().all().get().stream().noneMatch(g -> g.groupId().equals(NAME + "-g")), "the group is still listed");
        admin.deleteTopics(List.of(topic)).all().get();
        try {
            admin.describeTopics(Collections.singleton(topic)).allTopicNames().get();
            check(false, "the deleted topic is described");
        } catch (ExecutionException e) {
            check(e.getCause() instanceof org.apache.kafka.common.errors.UnknownTopicOrPartitionException, "describing it: " + e.getCause());
        }
    }

    private static String config(Admin admin, ConfigResource resource, String name) throws Exception {
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name).value();
    }
}
