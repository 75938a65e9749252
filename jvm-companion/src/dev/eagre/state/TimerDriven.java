package dev.eagre.state;

/** A processor whose timers shall ring on time, also where no rows come; null in its last column is a tick. */
public interface TimerDriven {
    /** What tells it from other processors of a task. */
    String id();

    /** How often an idle partition looks at its timers; 0 for never. */
    long tickMs();

    /** Whether what it keeps is taken away only when an epoch ends. */
    default boolean needsEpochs() {
        return false;
    }
}
