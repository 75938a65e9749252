package dev.eagre.deadletter;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.CompletableFuture;
import org.apache.spark.SparkException;

/** The dead letters of one task. Another thread writes them; the task waits for it at its end. */
public final class TaskDeadLetters {
    private static final int MOST_UNFLUSHED = 1000;
    private static final long MOST_BYTES = 16 << 20;

    private final String pipeline;
    private final DeadLetterTopics address;
    private final Deque<CompletableFuture<Void>> sent = new ArrayDeque<>();
    private long bytes;

    TaskDeadLetters(String pipeline, DeadLetterTopics address) {
        this.pipeline = pipeline;
        this.address = address;
    }

    /** Sends one, and gives the topic it goes to. */
    String send(DeadLetter letter) {
        String source = letter.position() == null ? null : letter.position().topic();
        String topic = address.topic(source);
        long size = letter.original() == null ? 0 : letter.original().size();
        while (!sent.isEmpty() && sent.peek().isDone()) {
            await(sent.poll());
        }
        if (sent.size() >= MOST_UNFLUSHED || bytes + size > MOST_BYTES) flush();
        sent.add(DeadLetterProducer.of(address.settings(source)).send(pipeline, address.source(topic), topic, letter));
        bytes += size;
        return topic;
    }

    /** Waits until the broker has all of them; a row is not passed over before. */
    void flush() {
        while (!sent.isEmpty()) {
            await(sent.poll());
        }
        bytes = 0;
    }

    /** Waits until what any task of this JVM has sent so far is settled; false if a letter was ever lost. */
    public static boolean settled() {
        return DeadLetterProducer.settled();
    }

    private static void await(CompletableFuture<Void> one) {
        try {
            one.get();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new org.apache.spark.TaskKilledException();
        } catch (java.util.concurrent.ExecutionException error) {
            ErrorPolicy.raise(new SparkException(
                    "DEAD_LETTER_LOST: a row that failed could not be written: " + error.getCause()));
        }
    }
}
