package dev.eagre.letters;

import java.io.Serializable;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.util.CollectionAccumulator;
import scala.Option;

/**
 * Rows that tasks of a query failed at. They come to the driver in an accumulator: Spark's public ones
 * forget what failed tasks added, one registered as Spark registers its own does not.
 */
public final class Suspects implements Serializable {
    private static final Deque<Suspects> KEPT = new ArrayDeque<>();
    private static final int MOST_KEPT = 100;

    private final String pipeline;
    private final CollectionAccumulator<Position> positions = new CollectionAccumulator<>();

    Suspects(String pipeline) {
        this.pipeline = pipeline;
    }

    static Suspects of(String pipeline, SparkContext context) {
        Suspects suspects = new Suspects(pipeline);
        suspects.positions.register(context, Option.apply("eagre-suspects"), true);
        return suspects.kept();
    }

    /** Among those of which the driver can be asked; the oldest make room. */
    Suspects kept() {
        synchronized (KEPT) {
            if (KEPT.size() == MOST_KEPT) KEPT.remove();
            KEPT.add(this);
        }
        return this;
    }

    void add(Position position) {
        positions.add(position);
    }

    /** Those of this session's latest queries: pipeline, topic, partition, offset; oldest first. */
    public static List<String[]> all() {
        List<String[]> found = new ArrayList<>();
        synchronized (KEPT) {
            for (Suspects one : KEPT) {
                for (Position at : one.positions.value()) {
                    found.add(new String[] {
                        one.pipeline, at.topic(), String.valueOf(at.partition()), String.valueOf(at.offset())
                    });
                }
            }
        }
        return found;
    }
}
