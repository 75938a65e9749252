package dev.eagre.python;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Future;
import org.apache.spark.SparkException;

/**
 * Writes rows that failed to a topic. Kafka's client comes with Spark's connector, which the
 * companion is not compiled against, hence the reflection.
 */
final class DeadLetters {
    private static final String CLIENTS = "org.apache.kafka.clients.";
    private static final String BYTES = "org.apache.kafka.common.serialization.ByteArraySerializer";

    private static final long BLOCK_MS = 15_000;
    private static final int MOST_UNFLUSHED = 1000;

    private final Options options;
    private final List<Future<?>> sent = new ArrayList<>();
    private final Set<String> known = new HashSet<>();
    private Object producer;

    DeadLetters(Options options) {
        this.options = options;
    }

    /** Sends one: position and reason in headers, so that the record can be found again. */
    void send(String topic, String reason, String position) {
        try {
            if (producer == null) open();
            if (known.add(topic)) create(topic);
            Class<?> recordClass = load(CLIENTS + "producer.ProducerRecord");
            Object record = recordClass
                    .getConstructor(String.class, Object.class, Object.class)
                    .newInstance(topic, null, null);
            Object headers = recordClass.getMethod("headers").invoke(record);
            header(headers, "eagre-pipeline", options.pipeline());
            header(headers, "eagre-reason", reason);
            header(headers, "eagre-source", position);
            header(headers, "eagre-time", Instant.now().toString());
            if (sent.size() >= MOST_UNFLUSHED) flush();
            Future<?> one = (Future<?>) producer.getClass().getMethod("send", recordClass).invoke(producer, record);
            sent.add(one);
            if (one.isDone()) flush();
        } catch (ReflectiveOperationException error) {
            throw lost(error);
        }
    }

    private void open() throws ReflectiveOperationException {
        Map<String, Object> settings = options.producer();
        settings.put("key.serializer", BYTES);
        settings.put("value.serializer", BYTES);
        settings.put("linger.ms", "0");
        settings.put("max.block.ms", String.valueOf(BLOCK_MS));
        Class<?> type = load(CLIENTS + "producer.KafkaProducer");
        producer = type.getConstructor(Map.class).newInstance(settings);
    }

    /** Creates the topic unless it is there; a cluster that creates topics by itself may refuse. */
    private void create(String topic) throws ReflectiveOperationException {
        Class<?> adminClass = load(CLIENTS + "admin.Admin");
        Object fresh = load(CLIENTS + "admin.NewTopic")
                .getConstructor(String.class, Optional.class, Optional.class)
                .newInstance(topic, Optional.empty(), Optional.empty());
        Object admin = adminClass.getMethod("create", Map.class).invoke(null, options.producer());
        try (AutoCloseable closing = (AutoCloseable) admin) {
            Object result = adminClass.getMethod("createTopics", Collection.class).invoke(closing, List.of(fresh));
            Object all = result.getClass().getMethod("all").invoke(result);
            ((Future<?>) all).get(BLOCK_MS, MILLISECONDS);
        } catch (Exception error) {
            // It exists, or it is the cluster's to create; if not, the flush tells.
        }
    }

    private static void header(Object headers, String name, String value) throws ReflectiveOperationException {
        load("org.apache.kafka.common.header.Headers")
                .getMethod("add", String.class, byte[].class)
                .invoke(headers, name, value.getBytes(StandardCharsets.UTF_8));
    }

    /** Waits until the broker has all of them; a row is not passed over before. */
    void flush() {
        try {
            for (Future<?> one : sent) {
                one.get();
            }
        } catch (Exception error) {
            throw lost(error);
        }
        sent.clear();
    }

    void close() {
        try {
            if (producer != null) producer.getClass().getMethod("close").invoke(producer);
        } catch (ReflectiveOperationException error) {
            // What matters was flushed.
        }
    }

    private RuntimeException lost(Exception error) {
        Throwable cause = error.getCause() == null ? error : error.getCause();
        return new RuntimeException(new SparkException(
                "DEAD_LETTER_LOST: a row that failed could not be written: " + cause));
    }

    private static Class<?> load(String name) throws ClassNotFoundException {
        return Class.forName(name, true, Thread.currentThread().getContextClassLoader());
    }
}
