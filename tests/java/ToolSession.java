import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UnsupportedEncodingException;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs one command line tool after the other in one process: most of a tool's time is the start of
 * its virtual machine. A line of standard input is a main class and its arguments, each in Base64;
 * the line that comes back is the exit status and what the tool wrote to its two outputs. It keeps
 * to what Java 8 and Kafka 1.1 have, so that every version of Kafka can be asked.
 */
public class ToolSession {
    private static class Exited extends Error {
    }

    /** What the tool ended with: the first word counts, for some catch the error that ends them. */
    private static Integer ended;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        // Scala's console keeps the streams it finds first, so there is one of each for all runs.
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        System.setOut(new PrintStream(output, true, "UTF-8"));
        System.setErr(new PrintStream(errors, true, "UTF-8"));
        Exit.Procedure exit = (status, message) -> {
            if (ended == null) {
                ended = status;
            }
            throw new Exited();
        };
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, "US-ASCII"));
        String line;
        while ((line = commands.readLine()) != null) {
            String[] words = Arrays.stream(line.split(" ")).map(ToolSession::decoded)
                .toArray(String[]::new);
            output.reset();
            errors.reset();
            int status = run(words[0], Arrays.copyOfRange(words, 1, words.length));
            System.out.flush();
            System.err.flush();
            answers.println(status + " " + encoded(output) + " " + encoded(errors));
            answers.flush();
        }
    }

    private static int run(String mainClass, String[] arguments) throws Exception {
        ended = null;
        int status = 0;
        try {
            Class.forName(mainClass).getMethod("main", String[].class)
                .invoke(null, (Object) arguments);
        } catch (InvocationTargetException error) {
            if (!(error.getCause() instanceof Exited)) {
                error.getCause().printStackTrace();
                status = 1;
            }
        }
        return ended == null ? status : ended;
    }

    private static String decoded(String word) {
        try {
            return new String(Base64.getDecoder().decode(word.substring(1)), "UTF-8");
        } catch (UnsupportedEncodingException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static String encoded(ByteArrayOutputStream output) {
        return "=" + Base64.getEncoder().encodeToString(output.toByteArray());
    }
}
