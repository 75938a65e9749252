package dev.eagre.kafka;

import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/**
 * Kafka's clients by reflection: they come with Spark's connector, which the companion is not compiled
 * against.
 */
public final class KafkaClients {
    public static final String CLIENTS = "org.apache.kafka.clients.";
    public static final String COMMON = "org.apache.kafka.common.";
    private static final long ANSWER_MS = 15_000;

    private static final Map<List<Object>, Executable> FOUND = new ConcurrentHashMap<>();

    private KafkaClients() {}

    /** Makes an object; what Kafka throws is thrown as it is. */
    public static Object make(String type, Object... given) {
        try {
            Class<?> made = load(type);
            return ((Constructor<?>) find(made, "<init>", made.getConstructors(), given)).newInstance(given);
        } catch (ReflectiveOperationException error) {
            throw thrown(error);
        }
    }

    public static Object call(Object target, String method, Object... given) {
        return invoke(target.getClass(), target, method, given);
    }

    private static Object invoke(Class<?> type, Object target, String method, Object... given) {
        try {
            return ((Method) find(type, method, type.getMethods(), given)).invoke(target, given);
        } catch (ReflectiveOperationException error) {
            throw thrown(error);
        }
    }

    /** A consumer of bytes that belongs to no group. */
    public static Object consumer(Map<String, Object> settings) {
        String bytes = COMMON + "serialization.ByteArrayDeserializer";
        Map<String, Object> all = new LinkedHashMap<>(settings);
        all.remove("group.id");
        all.put("key.deserializer", bytes);
        all.put("value.deserializer", bytes);
        all.put("enable.auto.commit", "false");
        all.put("auto.offset.reset", "earliest");
        all.put("max.poll.records", "5000");
        return make(CLIENTS + "consumer.KafkaConsumer", all);
    }

    static Object admin(Map<String, Object> settings) throws ClassNotFoundException {
        return invoke(load(CLIENTS + "admin.Admin"), null, "create", settings);
    }

    /** The largest batch of records that a topic takes; 0 if the cluster does not tell. */
    public static int largestMessage(Map<String, Object> settings, String topic) {
        try (AutoCloseable admin = (AutoCloseable) admin(settings)) {
            Object kind = load(COMMON + "config.ConfigResource$Type").getField("TOPIC").get(null);
            Object resource = make(COMMON + "config.ConfigResource", kind, topic);
            Object described = call(admin, "describeConfigs", List.of(resource));
            Map<?, ?> all = (Map<?, ?>) answer(call(described, "all"));
            Object entry = call(all.get(resource), "get", "max.message.bytes");
            return Integer.parseInt((String) call(entry, "value"));
        } catch (Exception error) {
            return 0;
        }
    }

    /** Creates a topic unless it is there; a cluster that creates topics by itself may refuse. */
    public static boolean create(Map<String, Object> settings, String topic, Map<String, String> configuration) {
        try (AutoCloseable admin = (AutoCloseable) admin(settings)) {
            Object none = java.util.Optional.empty();
            Object fresh = make(CLIENTS + "admin.NewTopic", topic, none, none);
            call(fresh, "configs", configuration);
            answer(call(call(admin, "createTopics", List.of(fresh)), "all"));
            return true;
        } catch (Exception error) {
            return is(error, "TopicExistsException");
        }
    }

    static Object answer(Object future) throws Exception {
        return ((Future<?>) future).get(ANSWER_MS, TimeUnit.MILLISECONDS);
    }

    /** Whether an error is, or comes from, one of Kafka's. */
    public static boolean is(Throwable error, String name) {
        for (Throwable one = error; one != null; one = one.getCause()) {
            if (one.getClass().getSimpleName().equals(name)) return true;
        }
        return false;
    }

    private static Executable find(Class<?> type, String name, Executable[] candidates, Object[] given)
            throws NoSuchMethodException {
        List<Object> key = Arrays.asList(type, name,
                Arrays.stream(given).map(one -> one == null ? "null" : one.getClass()).toList());
        Executable found = FOUND.get(key);
        if (found != null) return found;
        for (Executable candidate : candidates) {
            boolean named = name.equals("<init>") || candidate.getName().equals(name);
            if (named && takes(candidate.getParameterTypes(), given)) {
                FOUND.put(key, candidate);
                return candidate;
            }
        }
        throw new NoSuchMethodException(type.getName() + "." + name + key.get(2));
    }

    private static boolean takes(Class<?>[] types, Object[] given) {
        if (types.length != given.length) return false;
        for (int i = 0; i < types.length; i++) {
            if (given[i] == null ? types[i].isPrimitive() : !boxed(types[i]).isInstance(given[i])) return false;
        }
        return true;
    }

    private static Class<?> boxed(Class<?> type) {
        return type == long.class ? Long.class : type == int.class ? Integer.class : type;
    }

    private static Class<?> load(String name) throws ClassNotFoundException {
        return Class.forName(name, true, Thread.currentThread().getContextClassLoader());
    }

    private static RuntimeException thrown(ReflectiveOperationException error) {
        Throwable cause = error instanceof InvocationTargetException thrown ? thrown.getCause() : error;
        return cause instanceof RuntimeException unchecked ? unchecked : new IllegalStateException(cause);
    }

    /** A collection of one, as Kafka's clients take partitions. */
    public static Collection<Object> one(Object item) {
        return List.of(item);
    }
}
