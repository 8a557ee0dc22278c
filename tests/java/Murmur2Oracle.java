import java.util.Base64;
import java.util.Scanner;
import org.apache.kafka.common.utils.Utils;

/** Hashes keys, one in base64 a line, as Kafka's producers do. */
public final class Murmur2Oracle {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        StringBuilder answers = new StringBuilder();
        while (lines.hasNextLine()) {
            byte[] key = Base64.getDecoder().decode(lines.nextLine());
            answers.append(Utils.murmur2(key)).append('\n');
        }
        System.out.print(answers);
    }
}
