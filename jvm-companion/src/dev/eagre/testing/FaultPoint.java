package dev.eagre.testing;

/** A step at which a test lets a commit fail; a run that sets no property never does. */
public final class FaultPoint {
    /** The system property that names the step; it is cleared when the step is reached. */
    private static final String PROPERTY = "eagre.fault";

    private FaultPoint() {}

    /** Fails if a test has named this step. */
    public static void reach(String step) {
        if (!step.equals(System.getProperty(PROPERTY))) return;
        System.clearProperty(PROPERTY);
        throw new IllegalStateException("FAULT_INJECTED: at the step " + step);
    }
}
