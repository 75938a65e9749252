package dev.eagre.state;

/** A processor whose timers fire on time even without rows; a row with null in its last column is a tick. */
public interface TimerDriven {
    /** Distinguishes it from other processors of a task. */
    String id();

    /** How often an idle partition checks its timers; 0 for never. */
    long tickMs();

    /** Whether its expired state is removed only at an epoch boundary. */
    default boolean needsEpochs() {
        return false;
    }
}
