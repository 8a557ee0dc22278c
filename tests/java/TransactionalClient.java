import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactional producers, and group members that feed them, which do as they are told.
 *
 * <p>A command is a line of words on standard input: the name of a client, what it is to do, and
 * with what. The answer is a line on standard output: "ok" and the result, or "error", the name of
 * the exception and what it says. So one virtual machine serves a whole suite, and the scenarios
 * are written once, for Java as for every other client. The source compiles against clients from
 * 1.1 to 4.x, which is why a call or two goes by reflection.
 */
public final class TransactionalClient {
    private static final long DEADLINE_MS = 20_000;

    private final String servers;
    private KafkaProducer<String, String> producer;
    private KafkaConsumer<String, String> member;
    private Object groupMetadata;
    private String group;
    private final Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();

    private TransactionalClient(String servers) {
        this.servers = servers;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, TransactionalClient> clients = new HashMap<>();
        BufferedReader input =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            TransactionalClient client =
                clients.computeIfAbsent(words[0], name -> new TransactionalClient(arguments[0]));
            System.out.println(client.answer(words));
        }
    }

    private String answer(String[] words) {
        try {
            return "ok " + perform(words);
        } catch (Throwable problem) {
            Throwable cause = problem;
            while (cause.getCause() != null && (cause instanceof InvocationTargetException
                || cause instanceof ExecutionException
                || cause.getClass().getSimpleName().equals("KafkaException"))) {
                cause = cause.getCause();
            }
            String said = String.valueOf(cause.getMessage()).replace('\n', ' ');
            return "error " + cause.getClass().getSimpleName() + " " + said;
        }
    }

    private String perform(String[] words) throws Exception {
        switch (words[1]) {
            case "open":
                open(words[2], words[3]);
                return "";
            case "init":
                producer.initTransactions();
                return "";
            case "begin":
                producer.beginTransaction();
                return "";
            case "send":
                producer.send(new ProducerRecord<>(
                    words[2], Integer.valueOf(words[3]), words[4], words[5])).get();
                return "";
            case "sendall":
                sendAll(words);
                return "";
            case "commit":
                producer.commitTransaction();
                return "";
            case "abort":
                producer.abortTransaction();
                return "";
            case "join":
                join(words[2], words[3]);
                return "";
            case "poll":
                return poll(Integer.parseInt(words[2]));
            case "pollrecords":
                return pollRecords();
            case "offsets":
                sendOffsets();
                return "";
            case "leave":
                member.close();
                member = null;
                return "";
            case "read":
                return read(new TopicPartition(words[2], Integer.parseInt(words[3])),
                    words[4], Long.parseLong(words[5]));
            case "close":
                close();
                return "";
            default:
                throw new IllegalArgumentException(words[1]);
        }
    }

    private void open(String transactionalId, String timeoutMs) {
        Properties settings = properties();
        settings.put("transactional.id", transactionalId);
        settings.put("transaction.timeout.ms", timeoutMs);
        settings.put("max.block.ms", String.valueOf(DEADLINE_MS));
        settings.put("compression.type", "gzip");
        producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    /** Sends many values to one partition, and waits for all of them. */
    private void sendAll(String[] words) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int index = 4; index < words.length; index++) {
            sent.add(producer.send(new ProducerRecord<>(
                words[2], Integer.valueOf(words[3]), null, words[index])));
        }
        for (Future<RecordMetadata> each : sent) {
            each.get();
        }
    }

    private void join(String groupId, String topic) {
        group = groupId;
        member = consumer("read_committed", groupId);
        member.subscribe(Collections.singletonList(topic));
    }

    /** Returns what there is, perhaps nothing, as "partition:value". */
    private String pollRecords() throws Exception {
        List<String> found = new ArrayList<>();
        positions.clear();
        for (ConsumerRecord<String, String> record : poll(member)) {
            found.add(record.partition() + ":" + record.value());
            positions.put(new TopicPartition(record.topic(), record.partition()),
                new OffsetAndMetadata(record.offset() + 1));
        }
        groupMetadata = groupMetadata();
        return String.join(" ", found);
    }

    private String poll(int count) throws Exception {
        List<String> values = new ArrayList<>();
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        while (values.size() < count) {
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException(values.size() + " records in time");
            }
            for (ConsumerRecord<String, String> record : poll(member)) {
                values.add(record.value());
                positions.put(new TopicPartition(record.topic(), record.partition()),
                    new OffsetAndMetadata(record.offset() + 1));
            }
        }
        groupMetadata = groupMetadata();
        return String.join(" ", values);
    }

    /** Asks for what KIP-447 added in 2.5; a group id does for the clients before. */
    private Object groupMetadata() throws Exception {
        try {
            return KafkaConsumer.class.getMethod("groupMetadata").invoke(member);
        } catch (NoSuchMethodException old) {
            return group;
        }
    }

    private void sendOffsets() throws Exception {
        for (Method method : KafkaProducer.class.getMethods()) {
            if (method.getName().equals("sendOffsetsToTransaction")
                && method.getParameterTypes()[1].isInstance(groupMetadata)) {
                method.invoke(producer, positions, groupMetadata);
                return;
            }
        }
        throw new IllegalStateException("no way to send offsets");
    }

    private String read(TopicPartition partition, String isolation, long end) throws Exception {
        List<String> values = new ArrayList<>();
        List<TopicPartition> only = Collections.singletonList(partition);
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        try (KafkaConsumer<String, String> reader = consumer(isolation, "nobody")) {
            reader.assign(only);
            reader.seekToBeginning(only);
            while (reader.position(partition) < end) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("still at " + reader.position(partition));
                }
                for (ConsumerRecord<String, String> record : poll(reader)) {
                    values.add(record.value());
                }
            }
            Long told = reader.endOffsets(only).get(partition);
            if (told != end) {
                throw new IllegalStateException(told + " is told as the end, not " + end);
            }
        }
        return values.stream().collect(Collectors.joining(" "));
    }

    private void close() throws Exception {
        if (member != null) {
            member.close();
        }
        if (producer != null) {
            closeQuickly();
        }
    }

    /** Calls close(Duration) where it exists; clients before 2.0 have close() only. */
    private void closeQuickly() throws Exception {
        try {
            KafkaProducer.class.getMethod("close", Duration.class)
                .invoke(producer, Duration.ofMillis(500));
        } catch (NoSuchMethodException old) {
            producer.close();
        }
    }

    private KafkaConsumer<String, String> consumer(String isolation, String groupId) {
        Properties settings = properties();
        settings.put("group.id", groupId);
        settings.put("isolation.level", isolation);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    /** Calls poll(Duration) where it exists; clients before 2.0 have poll(long) only. */
    @SuppressWarnings("unchecked")
    private static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer)
        throws Exception {
        try {
            return (ConsumerRecords<String, String>) KafkaConsumer.class
                .getMethod("poll", Duration.class).invoke(consumer, Duration.ofMillis(100));
        } catch (NoSuchMethodException old) {
            return (ConsumerRecords<String, String>) KafkaConsumer.class
                .getMethod("poll", long.class).invoke(consumer, 100L);
        }
    }

    private Properties properties() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        return settings;
    }
}
