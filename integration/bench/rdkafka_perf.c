//go:build ignore

/*
 * Drives a Kafka broker with librdkafka as an application does: default batching, one delivery report or one message at a
 * time handed to the application. It works for RAMP + SECONDS seconds and counts in the second part only. The program that
 * starts it reads two lines from standard output, when the counted part begins and when it ends:
 *
 *     begin
 *     end <records> <bytes> <nanoseconds>
 *
 *     rdkafka_perf produce BROKERS TOPIC RAMP SECONDS PAYLOADS SIZE ACKS CODEC IDEMPOTENT
 *     rdkafka_perf consume BROKERS TOPIC RAMP SECONDS PARTITIONS
 *
 * PAYLOADS is a file of values of SIZE bytes, each followed by a line feed. Consume reads all partitions from their start and
 * begins again at a partition's end.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <librdkafka/rdkafka.h>

enum { BATCH = 10000 };

static int64_t acked_records, acked_bytes, failed;

static int64_t now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what, const char *why) {
	fprintf(stderr, "rdkafka_perf: %s: %s\n", what, why);
	exit(1);
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
	char why[256];
	if (rd_kafka_conf_set(conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK)
		die(name, why);
}

static rd_kafka_t *client(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
	char why[256];
	rd_kafka_t *rk = rd_kafka_new(type, conf, why, sizeof why);
	if (!rk)
		die("new client", why);
	return rk;
}

/* phase says where the run stands, and prints the two lines as it passes them. */
struct phase {
	int64_t ramp_until, until, began, records, bytes;
	int counting;
};

static struct phase start(const char *ramp, const char *seconds) {
	struct phase p = {0};
	p.ramp_until = now_ns() + (int64_t)(atof(ramp) * 1e9);
	p.until = p.ramp_until + (int64_t)(atof(seconds) * 1e9);
	return p;
}

static int running(struct phase *p, int64_t records, int64_t bytes) {
	int64_t now = now_ns();
	if (!p->counting && now >= p->ramp_until) {
		p->counting = 1;
		p->began = now;
		p->records = records;
		p->bytes = bytes;
		puts("begin");
		fflush(stdout);
	}
	if (now < p->until)
		return 1;
	printf("end %lld %lld %lld\n", (long long)(records - p->records), (long long)(bytes - p->bytes), (long long)(now - p->began));
	fflush(stdout);
	return 0;
}

static void delivered(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque) {
	(void)rk;
	(void)opaque;
	if (m->err) {
		if (!failed++)
			fprintf(stderr, "rdkafka_perf: not delivered: %s\n", rd_kafka_err2str(m->err));
		return;
	}
	acked_records++;
	acked_bytes += (int64_t)m->len;
}

static char *load(const char *path, size_t *size) {
	struct stat st;
	FILE *f = fopen(path, "rb");
	if (!f || fstat(fileno(f), &st))
		die(path, "cannot be read");
	char *all = malloc((size_t)st.st_size);
	*size = (size_t)st.st_size;
	if (!all || fread(all, 1, *size, f) != *size)
		die(path, "cannot be read whole");
	fclose(f);
	return all;
}

static int produce(char **arg) {
	size_t total, size = (size_t)atoll(arg[5]), at = 0;
	char *values = load(arg[4], &total);
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	set(conf, "bootstrap.servers", arg[0]);
	set(conf, "acks", arg[6]);
	set(conf, "compression.codec", arg[7]);
	set(conf, "enable.idempotence", arg[8]);
	set(conf, "queue.buffering.max.kbytes", "262144");
	rd_kafka_conf_set_dr_msg_cb(conf, delivered);
	rd_kafka_t *rk = client(RD_KAFKA_PRODUCER, conf);
	rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, arg[1], NULL);
	struct phase p = start(arg[2], arg[3]);
	while (running(&p, acked_records, acked_bytes)) {
		for (int i = 0; i < 1000; i++) {
			if (rd_kafka_produce(topic, RD_KAFKA_PARTITION_UA, 0, values + at, size, NULL, 0, NULL) == -1) {
				if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
					die("produce", rd_kafka_err2str(rd_kafka_last_error()));
				rd_kafka_poll(rk, 5);
				break;
			}
			at += size + 1;
			if (at + size > total)
				at = 0;
		}
		rd_kafka_poll(rk, 0);
	}
	rd_kafka_purge(rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
	return failed > 0;
}

static int consume(char **arg) {
	int partitions = atoi(arg[4]);
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	set(conf, "bootstrap.servers", arg[0]);
	set(conf, "group.id", "bench");
	set(conf, "enable.auto.commit", "false");
	set(conf, "enable.partition.eof", "true");
	set(conf, "fetch.wait.max.ms", "10"); /* or the next round would wait for a long poll at the partition's end */
	rd_kafka_t *rk = client(RD_KAFKA_CONSUMER, conf);
	rd_kafka_poll_set_consumer(rk);
	rd_kafka_topic_partition_list_t *all = rd_kafka_topic_partition_list_new(partitions);
	for (int i = 0; i < partitions; i++)
		rd_kafka_topic_partition_list_add(all, arg[1], i)->offset = 0;
	if (rd_kafka_assign(rk, all))
		die("assign", "refused");
	rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(rk);
	static rd_kafka_message_t *got[BATCH];
	int64_t records = 0, bytes = 0;
	struct phase p = start(arg[2], arg[3]);
	while (running(&p, records, bytes)) {
		ssize_t n = rd_kafka_consume_batch_queue(queue, 100, got, BATCH);
		for (ssize_t i = 0; i < n; i++) {
			rd_kafka_message_t *m = got[i];
			if (!m->err) {
				records++;
				bytes += (int64_t)m->len;
			} else if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
				rd_kafka_seek(m->rkt, m->partition, 0, 0);
			} else {
				die("consume", rd_kafka_message_errstr(m));
			}
			rd_kafka_message_destroy(m);
		}
	}
	return 0;
}

int main(int argc, char **argv) {
	if (argc == 11 && !strcmp(argv[1], "produce"))
		return produce(argv + 2);
	if (argc == 7 && !strcmp(argv[1], "consume"))
		return consume(argv + 2);
	fprintf(stderr, "usage: see the head of rdkafka_perf.c\n");
	return 2;
}
