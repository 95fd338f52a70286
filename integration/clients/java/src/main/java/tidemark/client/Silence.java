package tidemark.client;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A producer with the Java client's defaults that sends to each partition in turn and answers on standard output what is asked
 * on standard input, a word a line: "mark" begins anew (ok), "flows" says whether every partition has acknowledged something
 * since then (true, false), "silence" is the longest time without an acknowledgement of a partition since then, in ms. It ends
 * with its input.
 */
public final class Silence {
    private static final class Partition {
        private long last = System.nanoTime();
        private long longest;
        private boolean acked;

        synchronized void acknowledged() {
            long now = System.nanoTime();
            longest = Math.max(longest, now - last);
            last = now;
            acked = true;
        }

        synchronized void mark() {
            last = System.nanoTime();
            longest = 0;
            acked = false;
        }

        synchronized boolean flows() {
            return acked;
        }

        synchronized long silence() {
            return Math.max(longest, System.nanoTime() - last) / 1_000_000;
        }
    }

    private Silence() {}

    public static void main(String[] args) throws Exception {
        String topic = System.getenv("TOPIC");
        Partition[] partitions = new Partition[Integer.parseInt(System.getenv("PARTITIONS"))];
        for (int i = 0; i < partitions.length; i++) {
            partitions[i] = new Partition();
        }
        Properties p = new Properties();
        p.put("bootstrap.servers", System.getenv("BOOTSTRAP"));
        AtomicBoolean ended = new AtomicBoolean();
        AtomicReference<Exception> fault = new AtomicReference<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(p, new StringSerializer(), new StringSerializer())) {
            Thread sender = new Thread(() -> {
                for (int n = 0; !ended.get(); n++) {
                    int at = n % partitions.length;
                    producer.send(new ProducerRecord<>(topic, at, null, "java"), (where, error) -> {
                        if (error == null) {
                            partitions[at].acknowledged();
                        } else {
                            fault.set(error);
                        }
                    });
                    try {
                        Thread.sleep(10);
                    } catch (InterruptedException e) {
                        return;
                    }
                }
            });
            sender.start();
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                System.out.println(answer(line, partitions));
            }
            ended.set(true);
            sender.join();
        }
        if (fault.get() != null) {
            throw fault.get();
        }
    }

    private static String answer(String word, Partition[] partitions) {
        boolean flows = true;
        long silence = 0;
        for (Partition p : partitions) {
            if (word.equals("mark")) {
                p.mark();
            }
            flows &= p.flows();
            silence = Math.max(silence, p.silence());
        }
        return switch (word) {
            case "mark" -> "ok";
            case "flows" -> Boolean.toString(flows);
            default -> Long.toString(silence);
        };
    }
}
