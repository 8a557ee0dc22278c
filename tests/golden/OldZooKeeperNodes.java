import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import kafka.api.LeaderAndIsr;
import kafka.cluster.Broker;
import kafka.cluster.EndPoint;
import kafka.controller.LeaderIsrAndControllerEpoch;
import kafka.zk.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import scala.Option;
import scala.collection.JavaConverters;
import scala.collection.Seq;

/** Prints nodes whose form later Kafkas have changed, as Kafka 1.1 encodes them: kind and content. */
public class OldZooKeeperNodes {
    public static void main(String[] arguments) {
        print("controller", ControllerZNode.encode(0, 1700000000000L));
        LeaderAndIsr state = new LeaderAndIsr(0, 0, brokers(0, 1).toList(), 0);
        print("state", TopicPartitionStateZNode.encode(new LeaderIsrAndControllerEpoch(state, 12)));
        Map<TopicPartition, Seq<Object>> replicas = new LinkedHashMap<>();
        replicas.put(new TopicPartition("t", 0), brokers(1, 2, 3));
        print("topic", TopicZNode.encode(JavaConverters.mapAsScalaMap(replicas)));
        print("reassignment", ReassignPartitionsZNode.encode(JavaConverters.mapAsScalaMap(replicas)));
        for (String rack : new String[] {null, "r1"}) {
            broker(rack, endPoint("PLAINTEXT", "127.0.0.1", 9092, SecurityProtocol.PLAINTEXT));
            broker(rack, endPoint("SASL_SSL", "h", 9193, SecurityProtocol.SASL_SSL), endPoint("SSL", "h", 9093, SecurityProtocol.SSL));
            broker(rack, endPoint("CLIENT", "::1", 9092, SecurityProtocol.SASL_PLAINTEXT), endPoint("PEER", null, 9093, SecurityProtocol.PLAINTEXT));
        }
    }

    static void broker(String rack, EndPoint... endPoints) {
        Broker broker = new Broker(7, JavaConverters.asScalaBuffer(Arrays.asList(endPoints)), Option.apply(rack));
        print("broker", BrokerIdZNode.encode(new BrokerInfo(broker, 4, 9999)));
    }

    static EndPoint endPoint(String listener, String host, int port, SecurityProtocol protocol) {
        return new EndPoint(host, port, new ListenerName(listener), protocol);
    }

    static Seq<Object> brokers(int... ids) {
        return JavaConverters.asScalaBuffer(List.<Object>of(Arrays.stream(ids).boxed().toArray()));
    }

    static void print(String kind, byte[] data) {
        System.out.println(kind + "\t" + new String(data, StandardCharsets.UTF_8));
    }
}
