package dev.eagre.deadletter;

import dev.eagre.spark.StreamingRun;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.apache.spark.SparkException;

/** The dead letters of one task. Another thread writes them; the task waits for them at its end. */
public final class TaskDeadLetters {
    private static final int MAX_UNFLUSHED = 1000;
    private static final long MAX_BYTES = 16 << 20;

    private final String pipeline;
    private final DeadLetterTopics topics;
    private final Deque<CompletableFuture<Void>> sent = new ArrayDeque<>();
    private long bytes;

    TaskDeadLetters(String pipeline, DeadLetterTopics topics) {
        this.pipeline = pipeline;
        this.topics = topics;
    }

    /** Sends a dead letter, and returns its topic. */
    String send(DeadLetter letter) {
        String source = letter.position() == null ? null : letter.position().topic();
        String topic = topics.topic(source);
        long size = letter.original() == null ? 0 : letter.original().size();
        while (!sent.isEmpty() && sent.peek().isDone()) {
            await(sent.poll());
        }
        if (sent.size() >= MAX_UNFLUSHED || bytes + size > MAX_BYTES) flush();
        sent.add(DeadLetterProducer.of(topics.settings(source)).send(
                StreamingRun.current(), pipeline, topics.source(topic), topic, letter));
        bytes += size;
        return topic;
    }

    /** Waits until the brokers have stored all of them; no row is skipped before that. */
    void flush() {
        while (!sent.isEmpty()) {
            await(sent.poll());
        }
        bytes = 0;
    }

    /** Waits until all dead letters of a run in this JVM are delivered or lost, and returns how many were lost. */
    public static long lost(UUID run) {
        return DeadLetterProducer.lost(run.toString());
    }

    /** Waits until all dead letters of this JVM are delivered or lost. */
    public static void awaitAll() {
        DeadLetterProducer.awaitAll();
    }

    private static void await(CompletableFuture<Void> delivery) {
        try {
            delivery.get();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new org.apache.spark.TaskKilledException();
        } catch (java.util.concurrent.ExecutionException error) {
            ErrorPolicy.raise(new SparkException(
                    "DEAD_LETTER_LOST: a dead letter could not be written: " + error.getCause()));
        }
    }
}
