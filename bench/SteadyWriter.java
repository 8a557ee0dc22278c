import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Java's part of steady_writers.py: the same loop, and the same two files to begin and to end. */
public final class SteadyWriter {
    public static void main(String[] given) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given[0]);
        settings.put("acks", "all");
        settings.put("linger.ms", "0");
        settings.put("request.timeout.ms", given[2]);
        Path ready = Path.of(given[3]);
        Path stop = Path.of(given[4]);
        int warmUp = Integer.parseInt(given[5]);
        long pauseMs = Long.parseLong(given[6]);
        byte[] payload = new byte[Integer.parseInt(given[7])];
        long longest = 0;
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            for (int number = 0; number < warmUp || !Files.exists(stop); number++) {
                long began = System.nanoTime();
                producer.send(new ProducerRecord<>(given[1], 0, null, payload)).get();
                long took = System.nanoTime() - began;
                if (number == warmUp) {
                    Files.createFile(ready);
                }
                if (number >= warmUp) {
                    longest = Math.max(longest, took);
                }
                Thread.sleep(pauseMs);
            }
        }
        System.out.println("{\"gap\": " + longest / 1e9 + "}");
    }
}
