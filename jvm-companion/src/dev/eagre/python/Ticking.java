package dev.eagre.python;

/** A processor whose timers shall ring on time, also where no rows come; null in its last column is a tick. */
public interface Ticking {
    /** What tells it from other processors of a task. */
    String id();

    /** How often an idle partition looks at its timers; 0 for never. */
    long tickMs();

    /** Whether what it keeps is taken away only when an epoch ends. */
    default boolean needsEpochs() {
        return false;
    }
}
