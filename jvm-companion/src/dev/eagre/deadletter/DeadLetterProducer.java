package dev.eagre.deadletter;

import dev.eagre.kafka.KafkaClients;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map.Entry;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * Writes the dead letters of this JVM to one cluster, on a thread of its own: the rows of a task do
 * not wait for a producer to start, a topic to be made, or a record to be read again. It lives as long
 * as the JVM.
 */
final class DeadLetterProducer {
    private static final Map<Map<String, Object>, DeadLetterProducer> OPEN = new ConcurrentHashMap<>();
    private static final int MOST_AT_ONCE = 2000;
    private static final long IDLE_SECONDS = 30;
    /** Below any topic's limit: the client cuts a batch that is refused into such ones, again and again. */
    private static final int BATCH = 1 << 10;
    private static final int LARGEST = 1 << 27;
    private static final int LETTERHEAD = 1 << 16;

    private final Map<String, Object> settings;
    private final LinkedBlockingQueue<Order> queue = new LinkedBlockingQueue<>();
    private final Set<String> known = ConcurrentHashMap.newKeySet();
    private final SourceRecordReader originals;
    private CompletableFuture<Void> last = CompletableFuture.completedFuture(null);
    private volatile boolean lost;
    private Object producer;

    /** A letter on its way; {@code lost} says why a part of its record is missing. */
    static final class Order {
        final String pipeline;
        final String source;
        final String topic;
        final CompletableFuture<Void> done = new CompletableFuture<>();
        DeadLetter letter;
        String lost;

        Order(String pipeline, String source, String topic, DeadLetter letter) {
            this.pipeline = pipeline;
            this.source = source;
            this.topic = topic;
            this.letter = letter;
        }

        void lacks(SourceRecord what, String why) {
            letter = letter.with(what);
            lost = why;
        }
    }

    private DeadLetterProducer(Map<String, Object> settings) {
        this.settings = settings;
        originals = new SourceRecordReader(settings);
        Thread thread = new Thread(this::work, "eagre-dead-letters");
        thread.setDaemon(true);
        thread.setContextClassLoader(Thread.currentThread().getContextClassLoader());
        thread.start();
    }

    static DeadLetterProducer of(Map<String, Object> settings) {
        return OPEN.computeIfAbsent(settings, DeadLetterProducer::new);
    }

    /** Takes a letter; the answer is there when the cluster has it. */
    synchronized CompletableFuture<Void> send(String pipeline, String source, String topic, DeadLetter letter) {
        Order order = new Order(pipeline, source, topic, letter);
        order.done.whenComplete((done, error) -> lost |= error != null);
        queue.add(order);
        last = order.done;
        return order.done;
    }

    /** Waits until every letter so far is settled, which goes in their order; false if any was lost. */
    static boolean settled() {
        boolean kept = true;
        for (DeadLetterProducer outbox : OPEN.values()) {
            kept &= outbox.kept();
        }
        return kept;
    }

    private boolean kept() {
        CompletableFuture<Void> awaited;
        synchronized (this) {
            awaited = last;
        }
        return failure(awaited) == null && !lost;
    }

    private void work() {
        List<Order> orders = new ArrayList<>();
        while (true) {
            try {
                Order first = queue.poll(IDLE_SECONDS, TimeUnit.SECONDS);
                if (first == null) {
                    rest();
                    continue;
                }
                orders.add(first);
                queue.drainTo(orders, MOST_AT_ONCE - 1);
                deliver(orders);
            } catch (Throwable error) {
                orders.forEach(order -> order.done.completeExceptionally(error));
            }
            orders.clear();
        }
    }

    /** Closes the clients; the next letter opens them again. */
    private void rest() {
        originals.close();
        if (producer != null) KafkaClients.call(producer, "close", Duration.ofSeconds(1));
        producer = null;
        known.clear();
    }

    private void deliver(List<Order> orders) {
        originals.find(orders);
        List<Future<?>> sent = new ArrayList<>();
        for (Order order : orders) {
            sent.add(post(order));
        }
        for (int i = 0; i < orders.size(); i++) {
            settle(orders.get(i), sent.get(i));
        }
    }

    private void settle(Order order, Future<?> sent) {
        Throwable error = failure(sent);
        if (KafkaClients.is(error, "RecordTooLargeException")) error = failure(post(withoutValue(order)));
        if (KafkaClients.is(error, "RecordTooLargeException")) error = failure(post(withoutAnything(order)));
        if (error == null) {
            order.done.complete(null);
        } else {
            known.remove(order.topic);
            order.done.completeExceptionally(error);
        }
    }

    private static Order withoutValue(Order order) {
        order.lacks(order.letter.original().withoutValue(),
                "the record of " + order.letter.original().size() + " bytes is larger than this topic takes");
        return order;
    }

    private static Order withoutAnything(Order order) {
        order.lacks(SourceRecord.NOTHING, "the record's headers are larger than this topic takes");
        return order;
    }

    private static Throwable failure(Future<?> sent) {
        try {
            sent.get();
            return null;
        } catch (ExecutionException error) {
            return error.getCause();
        } catch (InterruptedException error) {
            return error;
        }
    }

    private Future<?> post(Order order) {
        try {
            if (producer == null) producer = open();
            if (known.add(order.topic)) create(order);
            SourceRecord original = order.letter.original();
            List<Object> headers = new ArrayList<>();
            for (Entry<String, byte[]> header : order.letter.headers(order.pipeline, order.lost)) {
                headers.add(KafkaClients.make(
                        KafkaClients.COMMON + "header.internals.RecordHeader", header.getKey(), header.getValue()));
            }
            Object record = KafkaClients.make(KafkaClients.CLIENTS + "producer.ProducerRecord",
                    order.topic, null, null, original.key(), original.value(), headers);
            return (Future<?>) KafkaClients.call(producer, "send", record);
        } catch (RuntimeException error) {
            return CompletableFuture.failedFuture(error);
        }
    }

    private Object open() {
        String bytes = KafkaClients.COMMON + "serialization.ByteArraySerializer";
        Map<String, Object> all = new LinkedHashMap<>(settings);
        all.put("key.serializer", bytes);
        all.put("value.serializer", bytes);
        all.put("acks", "all");
        all.put("linger.ms", "0");
        all.put("max.block.ms", "15000");
        all.put("batch.size", String.valueOf(BATCH));
        all.put("max.request.size", String.valueOf(LARGEST));
        all.put("buffer.memory", String.valueOf(LARGEST));
        return KafkaClients.make(KafkaClients.CLIENTS + "producer.KafkaProducer", all);
    }

    /** Creates the topic, for records as large as those of its source with the letter's headers. */
    private void create(Order order) {
        int largest = KafkaClients.largestMessage(settings, order.source);
        Map<String, String> larger = Map.of("max.message.bytes", String.valueOf((long) largest + LETTERHEAD));
        boolean made = largest > 0 && KafkaClients.create(settings, order.topic, larger);
        if (!made) KafkaClients.create(settings, order.topic, Map.of());
    }
}
