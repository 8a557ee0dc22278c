import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Everything the compatibility suite asks of a Java client, in one virtual machine.
 *
 * <p>Arguments: bootstrap servers, a prefix for topic names, a file of sample records, and the
 * modes to produce in ("gzip", "zstd+idempotent"). A record is a line "key|value|name=value,..."
 * of hex, "-" being null; what was consumed is printed in the same form behind its offset, long
 * values as their digest. One line of output per result: a name, a tab, the result. The source
 * compiles against clients from 1.1 to 4.x, which is why a call or two goes by reflection.
 */
public final class ClientRoundTrip {
    private static final long DEADLINE_MS = 20_000;
    private static final int DIGEST_ABOVE = 1_000;

    private final String servers;
    private final String prefix;
    private final AdminClient admin;

    private ClientRoundTrip(String servers, String prefix) {
        this.servers = servers;
        this.prefix = prefix;
        this.admin = AdminClient.create(properties());
    }

    public static void main(String[] arguments) throws Exception {
        ClientRoundTrip client = new ClientRoundTrip(arguments[0], arguments[1]);
        List<String> samples = Files.readAllLines(Paths.get(arguments[2]));
        try {
            for (int index = 3; index < arguments.length; index++) {
                client.roundTrip(arguments[index], samples);
            }
            client.lookUpByTime();
            client.deleteRecords();
            client.deleteTopic();
        } finally {
            client.admin.close();
        }
    }

    private void roundTrip(String mode, List<String> samples) throws Exception {
        String topic = create(mode.replace("+", "-"));
        String[] parts = mode.split("\\+");
        Properties settings = properties();
        settings.put("compression.type", parts[0]);
        settings.put("enable.idempotence", String.valueOf(parts.length > 1));
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (String sample : samples) {
            records.add(parse(topic, sample));
        }
        print(mode + ".offsets", produce(settings, records));
        for (ConsumerRecord<byte[], byte[]> record : consume(topic, samples.size())) {
            print(mode + ".record", record.offset() + " " + show(record));
        }
    }

    private void lookUpByTime() throws Exception {
        String topic = create("time");
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (long timestamp : new long[] {1_000, 2_000, 3_000}) {
            records.add(new ProducerRecord<>(topic, 0, timestamp, null, new byte[] {1}));
        }
        for (ProducerRecord<byte[], byte[]> record : records) {
            produce(properties(), Collections.singletonList(record));
        }
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            for (long asked : new long[] {0, 1_000, 1_001, 3_000, 3_001}) {
                OffsetAndTimestamp found = consumer
                    .offsetsForTimes(Collections.singletonMap(partition, asked)).get(partition);
                print("time", asked + " "
                    + (found == null ? "none" : found.offset() + "@" + found.timestamp()));
            }
        }
    }

    private void deleteRecords() throws Exception {
        String topic = create("trim");
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int number = 0; number < 10; number++) {
            records.add(new ProducerRecord<>(topic, 0, null, new byte[] {(byte) number}));
        }
        produce(properties(), records);
        TopicPartition partition = new TopicPartition(topic, 0);
        admin.deleteRecords(
            Collections.singletonMap(partition, RecordsToDelete.beforeOffset(4))).all().get();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            List<TopicPartition> asked = Collections.singletonList(partition);
            print("trim", consumer.beginningOffsets(asked).get(partition)
                + " " + consumer.endOffsets(asked).get(partition));
        }
        print("trim.left", consume(topic, 6).stream()
            .map(record -> String.valueOf(record.offset())).collect(Collectors.joining(" ")));
    }

    private void deleteTopic() throws Exception {
        String topic = create("gone");
        admin.deleteTopics(Collections.singleton(topic)).all().get();
        until(() -> !admin.listTopics().names().get().contains(topic), topic + " is gone");
        print("deleted", "yes");
    }

    private String create(String about) throws Exception {
        String topic = prefix + "-" + about;
        admin.createTopics(Collections.singleton(new NewTopic(topic, 1, (short) 1))).all().get();
        until(() -> admin.listTopics().names().get().contains(topic), topic + " is known");
        return topic;
    }

    private String produce(Properties settings, List<ProducerRecord<byte[], byte[]>> records)
        throws Exception {
        settings.put("acks", "all");
        settings.put("linger.ms", "20");
        List<String> offsets = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
            settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (ProducerRecord<byte[], byte[]> record : records) {
                sent.add(producer.send(record));
            }
            producer.flush();
            for (Future<RecordMetadata> each : sent) {
                offsets.add(String.valueOf(each.get().offset()));
            }
        }
        return String.join(" ", offsets);
    }

    private List<ConsumerRecord<byte[], byte[]>> consume(String topic, int count) throws Exception {
        List<ConsumerRecord<byte[], byte[]>> received = new ArrayList<>();
        List<TopicPartition> partition = Collections.singletonList(new TopicPartition(topic, 0));
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(partition);
            consumer.seekToBeginning(partition);
            until(() -> {
                for (ConsumerRecord<byte[], byte[]> record : poll(consumer)) {
                    received.add(record);
                }
                return received.size() >= count;
            }, count + " records of " + topic);
        }
        return received;
    }

    /** Calls poll(Duration) where it exists; clients before 2.0 have poll(long) only. */
    @SuppressWarnings("unchecked")
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer)
        throws Exception {
        try {
            return (ConsumerRecords<byte[], byte[]>) KafkaConsumer.class
                .getMethod("poll", java.time.Duration.class)
                .invoke(consumer, java.time.Duration.ofMillis(500));
        } catch (NoSuchMethodException old) {
            return (ConsumerRecords<byte[], byte[]>) KafkaConsumer.class
                .getMethod("poll", long.class).invoke(consumer, 500L);
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Properties settings = properties();
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "none");
        return new KafkaConsumer<>(
            settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private Properties properties() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        return settings;
    }

    private static void until(Callable<Boolean> reached, String what) throws Exception {
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        while (!reached.call()) {
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("not within " + DEADLINE_MS + " ms: " + what);
            }
            Thread.sleep(20);
        }
    }

    private static ProducerRecord<byte[], byte[]> parse(String topic, String line) {
        String[] parts = line.split("\\|", -1);
        List<Header> headers = new ArrayList<>();
        for (String header : parts[2].isEmpty() ? new String[0] : parts[2].split(",")) {
            String[] pair = header.split("=", -1);
            headers.add(new RecordHeader(
                new String(bytes(pair[0]), StandardCharsets.UTF_8), bytes(pair[1])));
        }
        return new ProducerRecord<>(topic, 0, bytes(parts[0]), bytes(parts[1]), headers);
    }

    private static String show(ConsumerRecord<byte[], byte[]> record) throws Exception {
        String headers = Arrays.stream(record.headers().toArray())
            .map(header -> hex(header.key().getBytes(StandardCharsets.UTF_8))
                + "=" + hex(header.value()))
            .collect(Collectors.joining(","));
        byte[] value = record.value();
        boolean large = value != null && value.length > DIGEST_ABOVE;
        String shown = large
            ? "sha256:" + hex(MessageDigest.getInstance("SHA-256").digest(value)) : hex(value);
        return hex(record.key()) + "|" + shown + "|" + headers;
    }

    private static byte[] bytes(String hex) {
        if (hex.equals("-")) {
            return null;
        }
        byte[] raw = new byte[hex.length() / 2];
        for (int index = 0; index < raw.length; index++) {
            raw[index] = (byte) Integer.parseInt(hex.substring(2 * index, 2 * index + 2), 16);
        }
        return raw;
    }

    private static String hex(byte[] raw) {
        if (raw == null) {
            return "-";
        }
        StringBuilder text = new StringBuilder(2 * raw.length);
        for (byte each : raw) {
            text.append(Character.forDigit(each >> 4 & 15, 16)).append(Character.forDigit(each & 15, 16));
        }
        return text.toString();
    }

    private static void print(String name, Object result) {
        System.out.println(name + "\t" + result);
    }
}
