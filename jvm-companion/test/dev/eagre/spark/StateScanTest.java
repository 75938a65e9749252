package dev.eagre.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.apache.spark.TaskContext;
import org.junit.jupiter.api.Test;

class StateScanTest {
    @Test
    void aScanDoesNotSeeTheTaskAndTheTaskIsBackAfterwards() {
        TaskContext task = Tasks.task();
        Tasks.in(task, () -> {
            assertEquals(7, StateScan.toItsEnd(() -> {
                assertNull(TaskContext.get());
                return 7;
            }));
            assertSame(task, TaskContext.get());
            return null;
        });
    }

    @Test
    void theTaskIsBackAfterAScanThatFails() {
        TaskContext task = Tasks.task();
        Tasks.in(task, () -> {
            Runnable broken = () -> {
                throw new IllegalStateException("broken");
            };
            assertThrows(IllegalStateException.class, () -> StateScan.toItsEnd(broken));
            assertSame(task, TaskContext.get());
            return null;
        });
    }

    @Test
    void aScanOutsideOfATaskLeavesNone() {
        assertEquals("read", StateScan.toItsEnd(() -> "read"));
        assertNull(TaskContext.get());
    }
}
