import org.apache.kafka.common.message.ApiMessageType.ListenerType;
import org.apache.kafka.common.protocol.ApiKeys;

/** Prints every API that a broker serves to clients: key, name, oldest and newest stable version. */
public class ApiRanges {
    public static void main(String[] arguments) {
        for (ApiKeys api : ApiKeys.apisForListener(ListenerType.BROKER)) {
            int newest = api.latestVersion(false);
            System.out.println(api.id + "\t" + api.name + "\t" + api.oldestVersion() + "\t" + newest);
        }
    }
}
