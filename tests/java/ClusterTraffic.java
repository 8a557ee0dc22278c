import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * An idempotent producer that writes what it is told to, and a consumer that reads along.
 *
 * <p>A line on standard input is a partition and a value to send. Lines on standard output tell the
 * history: "told PARTITION OFFSET VALUE" for an acknowledged record, "saw" likewise for one that was
 * read, "failed WHAT" for anything that went wrong. With the end of the input it waits until every
 * record is acknowledged or failed, and ends.
 */
public final class ClusterTraffic {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private static volatile boolean enough = false;

    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0];
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        String requestTimeoutMs = arguments[3];
        String deliveryTimeoutMs = arguments[4];
        Thread reading = new Thread(() -> read(servers, topic, partitions, requestTimeoutMs));
        reading.start();
        write(servers, topic, requestTimeoutMs, deliveryTimeoutMs);
        enough = true;
        reading.join();
    }

    private static Properties properties(String servers, String requestTimeoutMs) {
        Properties chosen = new Properties();
        chosen.put("bootstrap.servers", servers);
        chosen.put("request.timeout.ms", requestTimeoutMs);
        chosen.put("reconnect.backoff.max.ms", "500");
        return chosen;
    }

    private static void write(
            String servers, String topic, String requestTimeoutMs, String deliveryTimeoutMs)
            throws IOException {
        Properties chosen = properties(servers, requestTimeoutMs);
        chosen.put("delivery.timeout.ms", deliveryTimeoutMs);
        chosen.put("linger.ms", "5");
        BufferedReader input =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(chosen, new StringSerializer(), new StringSerializer())) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                int space = line.indexOf(' ');
                int partition = Integer.parseInt(line.substring(0, space));
                String value = line.substring(space + 1);
                producer.send(
                    new ProducerRecord<>(topic, partition, null, value),
                    (metadata, error) -> OUT.println(error == null
                        ? "told " + partition + " " + metadata.offset() + " " + value
                        : failure(value, error)));
            }
            producer.flush();
        }
    }

    private static void read(
            String servers, String topic, int partitions, String requestTimeoutMs) {
        Properties chosen = properties(servers, requestTimeoutMs);
        chosen.put("auto.offset.reset", "none");
        List<TopicPartition> all = new ArrayList<>();
        for (int partition = 0; partition < partitions; partition++) {
            all.add(new TopicPartition(topic, partition));
        }
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(chosen, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(all);
            all.forEach(partition -> consumer.seek(partition, 0));
            while (!enough) {
                for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(100))) {
                    OUT.println("saw " + one.partition() + " " + one.offset() + " " + one.value());
                }
            }
        } catch (RuntimeException error) {
            OUT.println(failure("the consumer", error));
        }
    }

    private static String failure(String what, Exception error) {
        return "failed " + what + ": " + error.toString().replace('\n', ' ');
    }
}
