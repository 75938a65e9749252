package dev.eagre.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.eagre.state.CheckpointClaim.Timing;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class CheckpointClaimTest {
    private static final Timing SHORT = new Timing(50, 400, 1_000);

    @TempDir
    java.nio.file.Path folder;

    private final List<CheckpointClaim> claims = new ArrayList<>();

    private CheckpointClaim claim() {
        claims.add(new CheckpointClaim(new Configuration(), new Path(folder.toUri()), SHORT));
        return claims.get(claims.size() - 1);
    }

    @AfterEach
    void release() {
        claims.forEach(CheckpointClaim::release);
    }

    @Test
    void aSecondRunIsRefusedWhileTheFirstShowsThatItLives() throws Exception {
        CheckpointClaim first = claim();
        assertEquals("", first.take());
        assertEquals("IN_USE", claim().take());
        first.require();
    }

    @Test
    void aReleasedCheckpointIsTakenWithoutAWait() throws Exception {
        CheckpointClaim first = claim();
        assertEquals("", first.take());
        first.release();
        long began = System.nanoTime();
        assertEquals("", claim().take());
        assertTrue(System.nanoTime() - began < TimeUnit.MILLISECONDS.toNanos(SHORT.silenceMs()), "it waited");
    }

    @Test
    void aRunThatWasPausedIsFencedWhenItWakesUp() throws Exception {
        CheckpointClaim first = claim();
        assertEquals("", first.take());
        first.pause();
        CheckpointClaim second = claim();
        assertEquals("", second.take());
        first.resume();
        IllegalStateException taken = assertThrows(IllegalStateException.class, first::require);
        assertTrue(taken.getMessage().startsWith("CHECKPOINT_TAKEN"), taken.getMessage());
        second.require();
        assertEquals("IN_USE", claim().take(), "the beats of the first run are not those of the second");
    }

    @Test
    void aRunThatCannotRenewItsClaimWaits() throws Exception {
        CheckpointClaim first = claim();
        assertEquals("", first.take());
        first.pause();
        Thread.sleep(SHORT.leaseMs());
        ExecutorService other = Executors.newSingleThreadExecutor();
        try {
            Runnable require = first::require;
            Future<?> passed = other.submit(require);
            assertThrows(java.util.concurrent.TimeoutException.class, () -> passed.get(200, TimeUnit.MILLISECONDS));
            first.resume();
            passed.get();
        } finally {
            other.shutdownNow();
        }
    }

    @Test
    void oldClaimsAreRemoved() throws Exception {
        for (int n = 0; n < 5; n++) {
            CheckpointClaim claim = claim();
            assertEquals("", claim.take());
            claim.release();
        }
        try (var files = Files.list(folder.resolve("eagre-owner"))) {
            List<String> names = files.map(file -> file.getFileName().toString()).sorted().toList();
            assertEquals(List.of("3", "3.beat", "4", "4.beat"), names);
        }
    }
}
