package dev.eagre.connectors.kafka;

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
 * Calls Kafka's clients by reflection: they come with Spark's connector, and the companion is not compiled
 * against it.
 */
public final class KafkaClients {
    public static final String CLIENTS = "org.apache.kafka.clients.";
    public static final String COMMON = "org.apache.kafka.common.";
    private static final long TIMEOUT_MS = 15_000;

    private static final Map<List<Object>, Executable> CACHE = new ConcurrentHashMap<>();

    private KafkaClients() {}

    /** Creates an object; Kafka's exceptions are rethrown unchanged. */
    public static Object make(String type, Object... arguments) {
        try {
            Class<?> loaded = load(type);
            return ((Constructor<?>) find(loaded, "<init>", loaded.getConstructors(), arguments)).newInstance(arguments);
        } catch (ReflectiveOperationException error) {
            throw unwrap(error);
        }
    }

    public static Object call(Object target, String method, Object... arguments) {
        return invoke(target.getClass(), target, method, arguments);
    }

    private static Object invoke(Class<?> type, Object target, String method, Object... arguments) {
        try {
            return ((Method) find(type, method, type.getMethods(), arguments)).invoke(target, arguments);
        } catch (ReflectiveOperationException error) {
            throw unwrap(error);
        }
    }

    /** A consumer of bytes without a consumer group. */
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

    /** The largest record batch that a topic accepts; 0 if unknown. */
    public static int largestMessage(Map<String, Object> settings, String topic) {
        try (AutoCloseable admin = (AutoCloseable) admin(settings)) {
            Object kind = load(COMMON + "config.ConfigResource$Type").getField("TOPIC").get(null);
            Object resource = make(COMMON + "config.ConfigResource", kind, topic);
            Object described = call(admin, "describeConfigs", List.of(resource));
            Map<?, ?> all = (Map<?, ?>) await(call(described, "all"));
            Object entry = call(all.get(resource), "get", "max.message.bytes");
            return Integer.parseInt((String) call(entry, "value"));
        } catch (Exception error) {
            return 0;
        }
    }

    /** Creates a topic unless it exists; a cluster that creates topics automatically may reject the request. */
    public static boolean create(Map<String, Object> settings, String topic, Map<String, String> configuration) {
        try (AutoCloseable admin = (AutoCloseable) admin(settings)) {
            Object none = java.util.Optional.empty();
            Object newTopic = make(CLIENTS + "admin.NewTopic", topic, none, none);
            call(newTopic, "configs", configuration);
            await(call(call(admin, "createTopics", List.of(newTopic)), "all"));
            return true;
        } catch (Exception error) {
            return is(error, "TopicExistsException");
        }
    }

    static Object await(Object future) throws Exception {
        return ((Future<?>) future).get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
    }

    /** Whether an error is, or is caused by, a Kafka exception of this name. */
    public static boolean is(Throwable error, String name) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause.getClass().getSimpleName().equals(name)) return true;
        }
        return false;
    }

    private static Executable find(Class<?> type, String name, Executable[] candidates, Object[] arguments)
            throws NoSuchMethodException {
        List<Object> key = Arrays.asList(type, name,
                Arrays.stream(arguments).map(argument -> argument == null ? "null" : argument.getClass()).toList());
        Executable cached = CACHE.get(key);
        if (cached != null) return cached;
        for (Executable candidate : candidates) {
            boolean named = name.equals("<init>") || candidate.getName().equals(name);
            if (named && accepts(candidate.getParameterTypes(), arguments)) {
                CACHE.put(key, candidate);
                return candidate;
            }
        }
        throw new NoSuchMethodException(type.getName() + "." + name + key.get(2));
    }

    private static boolean accepts(Class<?>[] types, Object[] arguments) {
        if (types.length != arguments.length) return false;
        for (int i = 0; i < types.length; i++) {
            if (arguments[i] == null ? types[i].isPrimitive() : !boxed(types[i]).isInstance(arguments[i])) return false;
        }
        return true;
    }

    private static Class<?> boxed(Class<?> type) {
        return type == long.class ? Long.class : type == int.class ? Integer.class : type;
    }

    private static Class<?> load(String name) throws ClassNotFoundException {
        return Class.forName(name, true, Thread.currentThread().getContextClassLoader());
    }

    private static RuntimeException unwrap(ReflectiveOperationException error) {
        Throwable cause = error instanceof InvocationTargetException wrapper ? wrapper.getCause() : error;
        return cause instanceof RuntimeException unchecked ? unchecked : new IllegalStateException(cause);
    }

    /** A collection with a single item, as Kafka's clients require for partitions. */
    public static Collection<Object> single(Object item) {
        return List.of(item);
    }
}
