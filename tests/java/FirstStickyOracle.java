import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.PartitionAssignor.Subscription;
import org.apache.kafka.common.TopicPartition;

/**
 * As {@code AssignorOracle}, with its lines and answers, but compiled against Kafka 1.1, whose
 * sticky assignor knew neither racks nor generations and whose classes have other places.
 */
public final class FirstStickyOracle {
    private FirstStickyOracle() { }

    public static void main(String[] arguments) throws Exception {
        PrintStream output = new PrintStream(System.out, false, "UTF-8");
        BufferedReader input =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            output.println(answer(line.split("\t", -1)));
        }
        output.flush();
    }

    private static String answer(String[] fields) {
        Map<String, Integer> counts = new HashMap<>();
        for (String topic : fields[1].split(";")) {
            String[] named = topic.split(":", -1);
            counts.put(named[0], named[1].split(",", -1).length);
        }
        Map<String, Subscription> members = new HashMap<>();
        for (String field : Arrays.copyOfRange(fields, 2, fields.length)) {
            String[] parts = field.split(";", -1);
            List<String> topics = Arrays.asList(parts[3].split(","));
            members.put(parts[0], parts[6].equals("-")
                ? new Subscription(topics) : new Subscription(topics, bytes(parts[6])));
        }
        return new StickyAssignor().assign(counts, members).entrySet().stream()
            .map(entry -> entry.getKey() + "=" + entry.getValue().stream()
                .map(TopicPartition::toString).collect(Collectors.joining(",")))
            .collect(Collectors.joining(";"));
    }

    private static ByteBuffer bytes(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int index = 0; index < bytes.length; index++) {
            bytes[index] = (byte) Integer.parseInt(hex.substring(2 * index, 2 * index + 2), 16);
        }
        return ByteBuffer.wrap(bytes);
    }
}
