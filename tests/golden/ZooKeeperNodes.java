import static scala.jdk.javaapi.CollectionConverters.asScala;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.api.LeaderAndIsr;
import kafka.cluster.Broker;
import kafka.cluster.EndPoint;
import kafka.controller.LeaderIsrAndControllerEpoch;
import kafka.controller.ReplicaAssignment;
import kafka.zk.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.feature.Features;
import org.apache.kafka.common.feature.SupportedVersionRange;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Sanitizer;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.server.common.ProducerIdsBlock;
import scala.Option;
import scala.collection.Seq;

/** Prints nodes as Kafka with ZooKeeper encodes them: kind and content. */
public class ZooKeeperNodes {
    public static void main(String[] arguments) {
        states();
        topics();
        registrations();
        partitionLists();
        print("controller", ControllerZNode.encode(1, 1700000000000L, -1));
        print("controller_epoch", ControllerEpochZNode.encode(12));
        print("cluster_id", ClusterIdZNode.toJson("IOejp_IKSbWbySJc0sRrKw"));
        print("log_dir_event", LogDirEventNotificationSequenceZNode.encode(3));
        print("producer_ids", ProducerIdBlockZNode.generateProducerIdBlockJson(new ProducerIdsBlock(1, 0L, 1000)));
        for (int version : new int[] {1, 2}) {
            print("feature", FeatureZNode.encode(new FeatureZNode(version, FeatureZNodeStatus.Disabled$.MODULE$, levels())));
            print("feature", FeatureZNode.encode(new FeatureZNode(version, FeatureZNodeStatus.Enabled$.MODULE$, levels("f"))));
        }
        Properties properties = new Properties();
        print("config", ConfigEntityZNode.encode(properties));
        properties.setProperty("retention.ms", "\u000b\u001f\t\"\\u000b/\u007f\u00e4\ud83d\ude00");
        print("config", ConfigEntityZNode.encode(properties));
        for (String name : List.of("plain", "CN=a, O=b*~_-.", "<default>", "\u00fc/\ud83d\ude00%+")) {
            print("config_change", ConfigEntityChangeNotificationSequenceZNode.encode("users/" + Sanitizer.sanitize(name)));
        }
        print("config_change", ConfigEntityChangeNotificationSequenceZNode.encode("users/<default>/clients/<default>"));
        print("offset", ConsumerOffset.encode(Long.MAX_VALUE));
    }

    static void states() {
        LeaderRecoveryState fine = LeaderRecoveryState.RECOVERED;
        state(12, LeaderAndIsr.apply(0, 0, ids(0, 1).toList(), fine, 0));
        state(12, LeaderAndIsr.apply(1, 0, ids(1, 2).toList(), fine, 0));
        state(1, LeaderAndIsr.apply(-1, 7, ids(2).toList(), fine, 3));
        state(5, LeaderAndIsr.apply(3, 8, ids(3).toList(), LeaderRecoveryState.RECOVERING, 3));
    }

    static void state(int controllerEpoch, LeaderAndIsr state) {
        print("state", TopicPartitionStateZNode.encode(new LeaderIsrAndControllerEpoch(state, controllerEpoch)));
    }

    static void topics() {
        Uuid id = Uuid.fromString("zeTNbNaeRS-h5yGiMZBOyg");
        for (Option<Uuid> known : List.of(Option.apply(id), Option.<Uuid>empty())) {
            Map<TopicPartition, ReplicaAssignment> assignment = new LinkedHashMap<>();
            for (int index = 0; index < 11; index++) {
                assignment.put(new TopicPartition("t", index), new ReplicaAssignment(ids(index, 1 + index), ids(), ids()));
                if (index == 0 || index == 2 || index == 10) {
                    print("topic", TopicZNode.encode(known, asScala(assignment)));
                }
            }
            assignment.put(new TopicPartition("t", 1), new ReplicaAssignment(ids(3, 4, 1), ids(3, 4), ids(1)));
            print("topic", TopicZNode.encode(known, asScala(assignment)));
        }
    }

    static void registrations() {
        for (String rack : new String[] {null, "r1"}) {
            broker(rack, endPoint("PLAINTEXT", "127.0.0.1", 9092, SecurityProtocol.PLAINTEXT));
            broker(rack, endPoint("SSL", "my-broker.host", 9093, SecurityProtocol.SSL));
            broker(rack, endPoint("CLIENT", "::1", 9092, SecurityProtocol.SASL_PLAINTEXT),
                endPoint("PEER", null, 9093, SecurityProtocol.PLAINTEXT), endPoint("LAST", "h", 1, SecurityProtocol.SASL_SSL));
        }
    }

    static void broker(String rack, EndPoint... endPoints) {
        Map<String, SupportedVersionRange> features = rack != null
            ? Map.of("f", new SupportedVersionRange((short) 1, (short) 3)) : Map.of();
        Broker broker = new Broker(7, asScala(List.of(endPoints)), Option.apply(rack), Features.supportedFeatures(features));
        print("broker", BrokerIdZNode.encode(new BrokerInfo(broker, 5, -1)));
    }

    static EndPoint endPoint(String listener, String host, int port, SecurityProtocol protocol) {
        return new EndPoint(host, port, new ListenerName(listener), protocol);
    }

    static void partitionLists() {
        TopicPartition one = new TopicPartition("t", 0);
        TopicPartition other = new TopicPartition("u", 3);
        Map<TopicPartition, Seq<Object>> wanted = new LinkedHashMap<>();
        wanted.put(one, ids(4, 5));
        wanted.put(other, ids(6));
        print("reassignment", ReassignPartitionsZNode.encode(asScala(wanted)));
        LinkedHashSet<TopicPartition> both = new LinkedHashSet<>(List.of(one, other));
        print("isr_change", IsrChangeNotificationSequenceZNode.encode(asScala(both)));
        print("election", PreferredReplicaElectionZNode.encode(asScala(both).toSet()));
    }

    static scala.collection.Map<String, Object> levels(String... names) {
        Map<String, Object> levels = new LinkedHashMap<>();
        for (String name : names) {
            levels.put(name, (short) 3);
        }
        return asScala(levels);
    }

    static Seq<Object> ids(int... numbers) {
        return asScala(List.<Object>of(java.util.Arrays.stream(numbers).boxed().toArray()));
    }

    static void print(String kind, byte[] data) {
        System.out.println(kind + "\t" + new String(data, StandardCharsets.UTF_8));
    }
}
