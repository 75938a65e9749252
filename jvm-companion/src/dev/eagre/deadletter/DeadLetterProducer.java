package dev.eagre.deadletter;

import dev.eagre.connectors.kafka.KafkaClients;
import dev.eagre.spark.PerRun;
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
import java.util.concurrent.atomic.AtomicLong;

/**
 * Writes the dead letters of this JVM to one cluster, on its own thread. The rows of a task do not wait
 * until a producer has started, a topic is created, or a record is read again. It lives as long as the
 * JVM.
 */
final class DeadLetterProducer {
    private static final Map<Map<String, Object>, DeadLetterProducer> OPEN = new ConcurrentHashMap<>();
    private static final int MAX_BATCH_LETTERS = 2000;
    private static final long IDLE_SECONDS = 30;
    /** Below any topic's limit: the client splits a rejected batch into batches of this size repeatedly. */
    private static final int BATCH_BYTES = 1 << 10;
    private static final int MAX_RECORD_BYTES = 1 << 27;
    private static final int HEADER_BYTES = 1 << 16;

    private final Map<String, Object> settings;
    private final LinkedBlockingQueue<Request> queue = new LinkedBlockingQueue<>();
    private final Set<String> createdTopics = ConcurrentHashMap.newKeySet();
    private final SourceRecordReader originals;
    private final PerRun<RunDeadLetters> runs = new PerRun<>(RunDeadLetters::new);
    private Object producer;

    /** What a run of a query has sent: the last dead letter, and how many were lost. */
    private static final class RunDeadLetters {
        private CompletableFuture<Void> last = CompletableFuture.completedFuture(null);
        private final AtomicLong lost = new AtomicLong();

        synchronized void sent(CompletableFuture<Void> delivery) {
            last = delivery;
        }

        synchronized CompletableFuture<Void> last() {
            return last;
        }
    }

    /** A dead letter to write; {@code lost} is why a part of its record is missing. */
    static final class Request {
        final String pipeline;
        final String source;
        final String topic;
        final CompletableFuture<Void> done = new CompletableFuture<>();
        DeadLetter letter;
        String lost;

        Request(String pipeline, String source, String topic, DeadLetter letter) {
            this.pipeline = pipeline;
            this.source = source;
            this.topic = topic;
            this.letter = letter;
        }

        void replaceRecord(SourceRecord replacement, String reason) {
            letter = letter.with(replacement);
            lost = reason;
        }
    }

    private DeadLetterProducer(Map<String, Object> settings) {
        this.settings = settings;
        originals = new SourceRecordReader(settings);
        Thread thread = new Thread(this::run, "eagre-dead-letters");
        thread.setDaemon(true);
        thread.setContextClassLoader(Thread.currentThread().getContextClassLoader());
        thread.start();
    }

    static DeadLetterProducer of(Map<String, Object> settings) {
        return OPEN.computeIfAbsent(settings, DeadLetterProducer::new);
    }

    /** Queues a dead letter; the future completes when the cluster has stored it. */
    synchronized CompletableFuture<Void> send(
            String run, String pipeline, String source, String topic, DeadLetter letter) {
        Request request = new Request(pipeline, source, topic, letter);
        RunDeadLetters letters = runs.of(run);
        request.done.whenComplete((done, error) -> letters.lost.addAndGet(error == null ? 0 : 1));
        queue.add(request);
        letters.sent(request.done);
        return request.done;
    }

    /** Waits until every dead letter of a run so far is delivered or lost, and returns how many were lost. */
    static long lost(String run) {
        long lost = 0;
        for (DeadLetterProducer producer : OPEN.values()) {
            RunDeadLetters letters = producer.runs.find(run);
            if (letters == null) continue;
            failure(letters.last());
            lost += letters.lost.get();
        }
        return lost;
    }

    /** Waits until every dead letter so far is delivered or lost. */
    static void awaitAll() {
        for (DeadLetterProducer producer : OPEN.values()) {
            producer.runs.all().values().forEach(letters -> failure(letters.last()));
        }
    }

    private void run() {
        List<Request> requests = new ArrayList<>();
        while (true) {
            try {
                Request first = queue.poll(IDLE_SECONDS, TimeUnit.SECONDS);
                if (first == null) {
                    closeClients();
                    continue;
                }
                requests.add(first);
                queue.drainTo(requests, MAX_BATCH_LETTERS - 1);
                deliver(requests);
            } catch (Throwable error) {
                requests.forEach(request -> request.done.completeExceptionally(error));
            }
            requests.clear();
        }
    }

    /** Closes the clients; the next dead letter opens them again. */
    private void closeClients() {
        originals.close();
        if (producer != null) KafkaClients.call(producer, "close", Duration.ofSeconds(1));
        producer = null;
        createdTopics.clear();
    }

    private void deliver(List<Request> requests) {
        originals.readAll(requests);
        List<Future<?>> sent = new ArrayList<>();
        for (Request request : requests) {
            sent.add(produce(request));
        }
        for (int i = 0; i < requests.size(); i++) {
            settle(requests.get(i), sent.get(i));
        }
    }

    private void settle(Request request, Future<?> sent) {
        Throwable error = failure(sent);
        if (KafkaClients.is(error, "RecordTooLargeException")) error = failure(produce(withoutValue(request)));
        if (KafkaClients.is(error, "RecordTooLargeException")) error = failure(produce(withoutAnything(request)));
        if (error == null) {
            request.done.complete(null);
        } else {
            createdTopics.remove(request.topic);
            request.done.completeExceptionally(error);
        }
    }

    private static Request withoutValue(Request request) {
        request.replaceRecord(request.letter.original().withoutValue(),
                "the record of " + request.letter.original().size() + " bytes exceeds the limit of this topic");
        return request;
    }

    private static Request withoutAnything(Request request) {
        request.replaceRecord(SourceRecord.EMPTY, "the record's headers exceed the limit of this topic");
        return request;
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

    private Future<?> produce(Request request) {
        try {
            if (producer == null) producer = open();
            if (createdTopics.add(request.topic)) create(request);
            SourceRecord original = request.letter.original();
            List<Object> headers = new ArrayList<>();
            for (Entry<String, byte[]> header : request.letter.headers(request.pipeline, request.lost)) {
                headers.add(KafkaClients.make(
                        KafkaClients.COMMON + "header.internals.RecordHeader", header.getKey(), header.getValue()));
            }
            Object record = KafkaClients.make(KafkaClients.CLIENTS + "producer.ProducerRecord",
                    request.topic, null, null, original.key(), original.value(), headers);
            return (Future<?>) KafkaClients.call(producer, "send", record);
        } catch (RuntimeException error) {
            return CompletableFuture.failedFuture(error);
        }
    }

    private Object open() {
        String bytes = KafkaClients.COMMON + "serialization.ByteArraySerializer";
        Map<String, Object> config = new LinkedHashMap<>(settings);
        config.put("key.serializer", bytes);
        config.put("value.serializer", bytes);
        config.put("acks", "all");
        config.put("linger.ms", "0");
        config.put("max.block.ms", "15000");
        config.put("batch.size", String.valueOf(BATCH_BYTES));
        config.put("max.request.size", String.valueOf(MAX_RECORD_BYTES));
        config.put("buffer.memory", String.valueOf(MAX_RECORD_BYTES));
        return KafkaClients.make(KafkaClients.CLIENTS + "producer.KafkaProducer", config);
    }

    /** Creates the topic, with a limit for the largest record of its source plus the dead letter's headers. */
    private void create(Request request) {
        int largest = KafkaClients.largestMessage(settings, request.source);
        Map<String, String> config = Map.of("max.message.bytes", String.valueOf((long) largest + HEADER_BYTES));
        boolean created = largest > 0 && KafkaClients.create(settings, request.topic, config);
        if (!created) KafkaClients.create(settings, request.topic, Map.of());
    }
}
