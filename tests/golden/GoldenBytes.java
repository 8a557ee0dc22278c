import java.io.File;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/**
 * Prints every generated message of the jars in a folder, in every version, as filled and
 * serialised by Kafka itself.
 *
 * <p>One JSON object a line: the message, the version, the variant, the values by field name
 * (bytes, records and uuids as hex) and the bytes as hex. Three variants: "full" sets every field
 * of the version to a value of its own and gives arrays two elements; "null" sets what may be null
 * to null and leaves arrays empty; "default" sets nothing.
 */
public final class GoldenBytes {
    private enum Variant { FULL, NULL, DEFAULT }

    private final Variant variant;
    private int counter;

    private GoldenBytes(Variant variant) {
        this.variant = variant;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String name : messageClasses(new File(arguments[0]))) {
            Class<?> message = Class.forName(name);
            short lowest = message.getField("LOWEST_SUPPORTED_VERSION").getShort(null);
            short highest = message.getField("HIGHEST_SUPPORTED_VERSION").getShort(null);
            Schema[] schemas = (Schema[]) message.getField("SCHEMAS").get(null);
            for (short version = lowest; version <= highest; version++) {
                for (Variant variant : Variant.values()) {
                    print(out, message, version, schemas[version], variant);
                }
            }
        }
        out.flush();
    }

    private static TreeSet<String> messageClasses(File folder) throws Exception {
        TreeSet<String> names = new TreeSet<>();
        for (File file : folder.listFiles((where, name) -> name.startsWith("kafka"))) {
            try (JarFile jar = new JarFile(file)) {
                for (Enumeration<JarEntry> all = jar.entries(); all.hasMoreElements();) {
                    String path = all.nextElement().getName();
                    if (path.endsWith("JsonConverter.class") && !path.contains("$")) {
                        names.add(path.replace("JsonConverter.class", "").replace('/', '.'));
                    }
                }
            }
        }
        names.removeIf(name -> !isMessage(name));
        return names;
    }

    private static boolean isMessage(String name) {
        try {
            Class<?> found = Class.forName(name);
            // A message without versions has been retired: its name is kept, its schema is not.
            return ApiMessage.class.isAssignableFrom(found)
                && found.getField("SCHEMAS").get(null) != null;
        } catch (ReflectiveOperationException | LinkageError absent) {
            return false;
        }
    }

    private static void print(
        PrintStream out, Class<?> type, short version, Schema schema, Variant variant
    ) throws Exception {
        StringBuilder json = new StringBuilder();
        ApiMessage message = (ApiMessage) type.getDeclaredConstructor().newInstance();
        if (variant == Variant.DEFAULT) {
            json.append("{}");
        } else {
            new GoldenBytes(variant).fill(message, schema, json);
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer;
        try {
            buffer = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(buffer), cache, version);
        } catch (RuntimeException refused) {
            // Some fields have a default that not every version can carry.
            if (variant == Variant.DEFAULT) {
                return;
            }
            throw refused;
        }
        String name = type.getSimpleName().replaceAll("Data$", "");
        out.printf(
            "{\"message\":\"%s\",\"version\":%d,\"variant\":\"%s\",\"values\":%s,\"bytes\":\"%s\"}%n",
            name, version, variant.name().toLowerCase(), json, hex(buffer.array()));
    }

    private void fill(Object target, Schema schema, StringBuilder json) throws Exception {
        json.append('{');
        boolean first = true;
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields) {
                for (var tagged : tagged(bound.def.type).values()) {
                    first = set(target, tagged.name, tagged.type, json, first);
                }
            } else {
                first = set(target, bound.def.name, bound.def.type, json, first);
            }
        }
        json.append('}');
    }

    /** Reads a member that has an accessor only in newer versions. */
    @SuppressWarnings("unchecked")
    private static Map<Integer, org.apache.kafka.common.protocol.types.Field> tagged(Type type)
        throws Exception {
        Field fields = TaggedFields.class.getDeclaredField("fields");
        fields.setAccessible(true);
        return (Map<Integer, org.apache.kafka.common.protocol.types.Field>) fields.get(type);
    }

    private boolean set(
        Object target, String name, Type type, StringBuilder json, boolean first
    ) throws Exception {
        Field field = fieldNamed(target.getClass(), name);
        field.setAccessible(true);
        json.append(first ? "" : ",").append('"').append(field.getName()).append("\":");
        field.set(target, value(field.getType(), field.getGenericType(), type, name, json));
        return false;
    }

    private static Field fieldNamed(Class<?> type, String name) {
        String wanted = name.replace("_", "");
        for (Field field : type.getDeclaredFields()) {
            if (!Modifier.isStatic(field.getModifiers())
                && field.getName().equalsIgnoreCase(wanted)) {
                return field;
            }
        }
        throw new IllegalStateException(type + " has no field " + name);
    }

    private Object value(
        Class<?> java, java.lang.reflect.Type generic, Type type, String name, StringBuilder json
    ) throws Exception {
        if (variant == Variant.NULL && type.isNullable()) {
            json.append("null");
            return null;
        }
        if (Collection.class.isAssignableFrom(java)) {
            return collection(java, generic, type, name, json);
        }
        if (type instanceof Schema) {
            Object nested = java.getDeclaredConstructor().newInstance();
            fill(nested, (Schema) type, json);
            return nested;
        }
        return scalar(java, type, name, json);
    }

    @SuppressWarnings("unchecked")
    private Object collection(
        Class<?> java, java.lang.reflect.Type generic, Type type, String name, StringBuilder json
    ) throws Exception {
        java.lang.reflect.Type holder = java == List.class ? generic : java.getGenericSuperclass();
        Class<?> element = (Class<?>) ((ParameterizedType) holder).getActualTypeArguments()[0];
        Collection<Object> made = java == List.class
            ? new ArrayList<>()
            : (Collection<Object>) java.getDeclaredConstructor().newInstance();
        int count = variant == Variant.FULL ? 2 : 0;
        json.append('[');
        for (int index = 0; index < count; index++) {
            json.append(index == 0 ? "" : ",");
            made.add(value(element, element, type.arrayElementType().get(), name, json));
        }
        json.append(']');
        return made;
    }

    private Object scalar(Class<?> java, Type type, String name, StringBuilder json)
        throws Exception {
        counter++;
        int sign = counter % 5 == 0 ? -1 : 1;
        if (java == String.class) {
            // Beyond 127 bytes a compact length takes two bytes.
            String text = counter % 7 == 0 ? (name + "-").repeat(20) : name + "-\u00fc-";
            json.append('"').append(text).append(counter).append('"');
            return text + counter;
        }
        if (java == boolean.class || java == Boolean.class) {
            json.append(counter % 3 != 0);
            return counter % 3 != 0;
        }
        if (java == double.class || java == Double.class) {
            json.append(counter + 0.25);
            return counter + 0.25;
        }
        if (java == Uuid.class) {
            Uuid made = new Uuid(0x0102030405060708L, 1000 + counter);
            json.append(String.format("\"%016x%016x\"",
                made.getMostSignificantBits(), made.getLeastSignificantBits()));
            return made;
        }
        if (!java.isPrimitive() && !Number.class.isAssignableFrom(java)) {
            byte[] raw = (name + counter).getBytes(StandardCharsets.UTF_8);
            json.append('"').append(hex(raw)).append('"');
            return binary(java, raw);
        }
        long number = number(java, type, sign);
        json.append(number);
        return boxed(java, number);
    }

    private long number(Class<?> java, Type type, int sign) {
        if (java == byte.class || java == Byte.class) {
            return sign * (counter % 120 + 1);
        }
        if (java == short.class || java == Short.class) {
            return sign * (1000 + counter);
        }
        if (type == Type.UINT16) {
            return 60_000 + counter % 5_000;
        }
        if (java == int.class || java == Integer.class) {
            return sign * (100_000 + counter);
        }
        return type == Type.UNSIGNED_INT32 ? 3_000_000_000L + counter : sign * ((1L << 40) + counter);
    }

    private static Object boxed(Class<?> java, long number) {
        if (java == byte.class || java == Byte.class) {
            return (byte) number;
        }
        if (java == short.class || java == Short.class) {
            return (short) number;
        }
        if (java == int.class || java == Integer.class) {
            return (int) number;
        }
        return number;
    }

    private static Object binary(Class<?> java, byte[] raw) throws Exception {
        if (java == byte[].class) {
            return raw;
        }
        if (java == ByteBuffer.class) {
            return ByteBuffer.wrap(raw);
        }
        // The classes of records have moved between packages; they stayed beside each other.
        return Class.forName(java.getPackageName() + ".MemoryRecords")
            .getMethod("readableRecords", ByteBuffer.class)
            .invoke(null, ByteBuffer.wrap(raw));
    }

    private static String hex(byte[] raw) {
        StringBuilder text = new StringBuilder(2 * raw.length);
        for (byte each : raw) {
            text.append(Character.forDigit(each >> 4 & 15, 16)).append(Character.forDigit(each & 15, 16));
        }
        return text.toString();
    }
}
