import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Answers every line of standard input, one assignment to work out, with one line: what Kafka's own
 * assignor gives. {@code tests/kits/assignor_oracle.py} writes the lines and reads the answers. In place
 * of an assignor a line may ask for bytes: of a member's subscription, of the assignment of what it
 * owns, or of the user data of a member that was assigned what it owns.
 */
public final class AssignorOracle {
    private AssignorOracle() { }

    public static void main(String[] arguments) throws Exception {
        PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader input =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            output.println(answer(line.split("\t", -1)));
        }
        output.flush();
    }

    private static String answer(String[] fields) {
        Map<String, Subscription> members = new HashMap<>();
        for (String field : Arrays.copyOfRange(fields, 2, fields.length)) {
            String[] parts = field.split(";", -1);
            members.put(parts[0], subscription(parts));
        }
        Subscription first = members.values().iterator().next();
        switch (fields[0]) {
            case "subscription bytes":
                return hex(ConsumerProtocol.serializeSubscription(first));
            case "assignment bytes":
                return hex(ConsumerProtocol.serializeAssignment(
                    new Assignment(first.ownedPartitions(), first.userData())));
            case "sticky bytes":
                return hex(userData(new StickyAssignor(), first));
            case "cooperative-sticky bytes":
                return hex(userData(new CooperativeStickyAssignor(), first));
            default:
                return assigned(fields, members);
        }
    }

    /** Tells what a member that got what it owns would send with its next subscription. */
    private static ByteBuffer userData(ConsumerPartitionAssignor assignor, Subscription member) {
        assignor.onAssignment(
            new Assignment(member.ownedPartitions()),
            new ConsumerGroupMetadata(
                "group", member.generationId().orElse(-1), "member", Optional.empty()));
        return assignor.subscriptionUserData(new HashSet<>(member.topics()));
    }

    private static String assigned(String[] fields, Map<String, Subscription> members) {
        try {
            return text(assignor(fields[0])
                .assign(cluster(fields[1]), new GroupSubscription(members)).groupAssignment());
        } catch (RuntimeException error) {
            return "!" + error;
        }
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }

    /** Reads {@code t0:a+b,a,;t1:}: of each partition the racks of its replicas. */
    private static Cluster cluster(String text) {
        List<PartitionInfo> partitions = new ArrayList<>();
        for (String topic : listed(text, ";")) {
            String[] named = topic.split(":", -1);
            String[] places = named[1].split(",", -1);
            for (int partition = 0; partition < places.length; partition++) {
                Node[] replicas = listed(places[partition], "\\+").stream()
                    .map(rack -> new Node(rack.hashCode(), "host", 9092, rack))
                    .toArray(Node[]::new);
                partitions.add(new PartitionInfo(
                    named[0], partition, Node.noNode(), replicas, replicas));
            }
        }
        return new Cluster(
            "cluster", Collections.emptyList(), partitions, new HashSet<>(), new HashSet<>());
    }

    /** Takes the fields id, instance, rack, topics, generation, owned partitions, user data. */
    private static Subscription subscription(String[] parts) {
        ByteBuffer userData = parts[6].equals("-") ? null : bytes(parts[6]);
        Subscription subscription = new Subscription(
            listed(parts[3], ","), userData, partitions(parts[5]), Integer.parseInt(parts[4]),
            parts[2].isEmpty() ? Optional.empty() : Optional.of(parts[2]));
        if (!parts[1].isEmpty()) {
            subscription.setGroupInstanceId(Optional.of(parts[1]));
        }
        return subscription;
    }

    private static List<TopicPartition> partitions(String text) {
        return listed(text, ",").stream().map(name -> {
            int dash = name.lastIndexOf('-');
            return new TopicPartition(
                name.substring(0, dash), Integer.parseInt(name.substring(dash + 1)));
        }).collect(Collectors.toList());
    }

    private static ByteBuffer bytes(String hex) {
        ByteBuffer buffer = ByteBuffer.allocate(hex.length() / 2);
        for (int index = 0; index < hex.length(); index += 2) {
            buffer.put((byte) Integer.parseInt(hex.substring(index, index + 2), 16));
        }
        return buffer.flip();
    }

    private static String hex(ByteBuffer buffer) {
        StringBuilder hex = new StringBuilder();
        while (buffer.hasRemaining()) {
            hex.append(String.format("%02x", buffer.get()));
        }
        return hex.toString();
    }

    private static List<String> listed(String text, String separator) {
        return text.isEmpty() ? Collections.emptyList() : Arrays.asList(text.split(separator));
    }

    private static String text(Map<String, Assignment> assignments) {
        return assignments.entrySet().stream()
            .map(entry -> entry.getKey() + "=" + entry.getValue().partitions().stream()
                .map(TopicPartition::toString).collect(Collectors.joining(",")))
            .collect(Collectors.joining(";"));
    }
}
