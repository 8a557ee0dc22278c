import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A process full of consumers that does what its standard input says; see
 * {@code tests/compat/group_host.py}, whose commands, events and wishes these are. Argument: the
 * bootstrap servers. The source compiles against clients from 1.1 to 4.x, which is why a call or
 * two goes by reflection.
 */
public final class GroupHost {
    private static final long POLL_MS = 50;
    /** How long members may take to leave a broker that is perhaps gone. */
    private static final long END_MS = 10_000;
    private static final long NO_OFFSET = -1001;

    private GroupHost() { }

    public static void main(String[] arguments) throws Exception {
        Map<String, Member> members = new HashMap<>();
        say("", "ready", "");
        BufferedReader input =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] parts = line.split("\t", -1);
            String[] rest = Arrays.copyOfRange(parts, 1, parts.length);
            if (rest[0].equals("join")) {
                Member member = new Member(arguments[0], parts[0], wishes(rest));
                members.put(parts[0], member);
                member.start();
            } else {
                members.get(parts[0]).commands.add(rest);
            }
        }
        for (Member member : members.values()) {
            member.commands.add(new String[] {"leave"});
        }
        long deadline = System.currentTimeMillis() + END_MS;
        for (Member member : members.values()) {
            member.join(Math.max(1, deadline - System.currentTimeMillis()));
        }
        Runtime.getRuntime().halt(0);
    }

    private static Map<String, String> wishes(String[] parts) {
        Map<String, String> wishes = new HashMap<>();
        for (int index = 1; index < parts.length; index++) {
            String[] pair = parts[index].split("=", 2);
            wishes.put(pair[0], pair[1]);
        }
        return wishes;
    }

    private static synchronized void say(String member, String event, String text) {
        System.out.println(System.nanoTime() + "\t" + member + "\t" + event + "\t" + text);
        System.out.flush();
    }

    /** One consumer and its thread. */
    private static final class Member extends Thread implements ConsumerRebalanceListener {
        final Queue<String[]> commands = new ConcurrentLinkedQueue<>();
        private final String server;
        private final Map<String, String> wishes;
        private KafkaConsumer<byte[], byte[]> consumer;
        private boolean uncommitted;
        private boolean fenced;

        Member(String server, String name, Map<String, String> wishes) {
            super(name);
            this.server = server;
            this.wishes = wishes;
        }

        @Override
        public void run() {
            try {
                live();
            } catch (Throwable error) {
                tell("error", name(error));
            }
        }

        private void live() throws Throwable {
            consumer = new KafkaConsumer<>(
                settings(), new ByteArrayDeserializer(), new ByteArrayDeserializer());
            if (wishes.get("pattern").isEmpty()) {
                consumer.subscribe(Arrays.asList(wishes.get("topics").split(",")), this);
            } else {
                consumer.subscribe(Pattern.compile(wishes.get("pattern")), this);
            }
            while (obey()) {
                turn();
            }
            tell("leaving", "");
            try {
                consumer.close();
            } catch (RuntimeException error) {
                // A member that was fenced meanwhile hears of it here, and is closed all the same.
                tell("error", name(error));
            }
            tell("closed", "");
        }

        private Properties settings() {
            Properties settings = new Properties();
            settings.put("bootstrap.servers", server);
            settings.put("client.id", getName());
            settings.put("group.id", wishes.get("group"));
            settings.put("auto.offset.reset", wishes.get("reset"));
            settings.put("partition.assignment.strategy",
                Arrays.stream(wishes.get("assignors").split(","))
                    .map(Member::assignor).collect(Collectors.toList()));
            boolean automatic = !wishes.get("auto_commit_ms").equals("0");
            settings.put("enable.auto.commit", String.valueOf(automatic));
            if (automatic) {
                settings.put("auto.commit.interval.ms", wishes.get("auto_commit_ms"));
            }
            settings.put("session.timeout.ms", wishes.get("session_ms"));
            settings.put("heartbeat.interval.ms", wishes.get("heartbeat_ms"));
            settings.put("max.poll.interval.ms", wishes.get("poll_interval_ms"));
            settings.put("metadata.max.age.ms", wishes.get("metadata_ms"));
            if (!wishes.get("instance").isEmpty()) {
                settings.put("group.instance.id", wishes.get("instance"));
            }
            return settings;
        }

        private static String assignor(String name) {
            String known = "org.apache.kafka.clients.consumer.";
            switch (name) {
                case "range": return known + "RangeAssignor";
                case "roundrobin": return known + "RoundRobinAssignor";
                case "sticky": return known + "StickyAssignor";
                case "cooperative-sticky": return known + "CooperativeStickyAssignor";
                default: return name;
            }
        }

        /**
         * Polls once, and commits what was read if that is wished. Whoever was fenced has a
         * successor: polling on would fence that in turn, and so on for ever.
         */
        private void turn() throws Throwable {
            if (fenced) {
                Thread.sleep(POLL_MS);
                return;
            }
            ConsumerRecords<byte[], byte[]> records;
            try {
                records = poll();
            } catch (RuntimeException error) {
                tell("error", name(error));
                fenced = name(error).equals("FencedInstanceId");
                Thread.sleep(POLL_MS);
                return;
            }
            for (TopicPartition partition : records.partitions()) {
                List<ConsumerRecord<byte[], byte[]>> run = records.records(partition);
                tell("read", partition + " " + run.get(0).offset() + " "
                    + run.get(run.size() - 1).offset());
            }
            uncommitted |= !records.isEmpty();
            if (uncommitted && wishes.get("commit").equals("each")) {
                commit();
            }
        }

        private void commit() {
            try {
                consumer.commitSync();
                uncommitted = false;
                tell("committed", "");
            } catch (RuntimeException error) {
                tell("refused", name(error));
            }
        }

        /** Takes one command, if there is one; tells whether to go on. */
        private boolean obey() throws Throwable {
            String[] command = commands.poll();
            if (command == null) {
                return true;
            }
            switch (command[0]) {
                case "leave":
                    return false;
                case "subscribe":
                    consumer.subscribe(Arrays.asList(command[1].split(",")), this);
                    break;
                case "stall":
                    stall();
                    break;
                case "commit":
                    commit();
                    break;
                case "commit-later":
                    consumer.commitAsync((offsets, error) ->
                        tell(error == null ? "committed" : "refused",
                            error == null ? "" : name(error)));
                    break;
                case "seek":
                    consumer.seek(partition(command[1]), Long.parseLong(command[2]));
                    tell("answer", "");
                    break;
                case "ping":
                    tell("answer", "");
                    break;
                case "position":
                    tell("answer", String.valueOf(consumer.position(partition(command[1]))));
                    break;
                default:
                    tell("answer", String.valueOf(committed(partition(command[1]))));
            }
            return true;
        }

        /** Is busy with what was read until told to wake, then commits it, before any poll. */
        private void stall() throws InterruptedException {
            tell("asleep", "");
            while (commands.poll() == null) {
                Thread.sleep(POLL_MS);
            }
            commit();
        }

        private static TopicPartition partition(String name) {
            int dash = name.lastIndexOf('-');
            return new TopicPartition(
                name.substring(0, dash), Integer.parseInt(name.substring(dash + 1)));
        }

        /** Calls poll(Duration) where it exists; clients before 2.0 have poll(long) only. */
        @SuppressWarnings("unchecked")
        private ConsumerRecords<byte[], byte[]> poll() throws Throwable {
            Object records;
            try {
                records = called("poll", Duration.class, Duration.ofMillis(POLL_MS));
            } catch (NoSuchMethodException old) {
                records = called("poll", long.class, POLL_MS);
            }
            return (ConsumerRecords<byte[], byte[]>) records;
        }

        /** Calls committed(Set) where it exists; clients before 2.4 ask for one partition. */
        private long committed(TopicPartition partition) throws Throwable {
            Object found;
            try {
                found = ((Map<?, ?>) called(
                    "committed", Set.class, Collections.singleton(partition))).get(partition);
            } catch (NoSuchMethodException old) {
                found = called("committed", TopicPartition.class, partition);
            }
            return found == null ? NO_OFFSET : ((OffsetAndMetadata) found).offset();
        }

        private Object called(String method, Class<?> type, Object argument) throws Throwable {
            try {
                return KafkaConsumer.class.getMethod(method, type).invoke(consumer, argument);
            } catch (InvocationTargetException failed) {
                throw failed.getCause();
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            tell("assigned", listed(partitions));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            tell("revoked", listed(partitions));
        }

        /** Overrides what clients since 2.4 call when partitions are somebody else's already. */
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            tell("lost", listed(partitions));
        }

        private static String listed(Collection<TopicPartition> partitions) {
            return partitions.stream().map(TopicPartition::toString).sorted()
                .collect(Collectors.joining(" "));
        }

        private static String name(Throwable error) {
            return error.getClass().getSimpleName().replaceAll("Exception$", "");
        }

        private void tell(String event, String text) {
            say(getName(), event, text);
        }
    }
}
