package dev.eagre.connectors.redis;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RedisProtocolTest {
    private static final Duration LIMIT = Duration.ofSeconds(60);

    private ServerSocket server;
    private Socket peer;
    private RedisProtocol resp;

    @BeforeEach
    void connect() throws Exception {
        server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        CompletableFuture<Socket> accepted = CompletableFuture.supplyAsync(() -> {
            try {
                return server.accept();
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        });
        resp = new RedisProtocol(server.getInetAddress().getHostAddress(), server.getLocalPort(), false);
        peer = accepted.get();
    }

    @AfterEach
    void close() throws Exception {
        resp.close();
        peer.close();
        server.close();
    }

    /** Sends the server's answer and closes the stream. */
    private void answers(String text) throws IOException {
        peer.getOutputStream().write(text.getBytes(UTF_8));
        peer.shutdownOutput();
    }

    private String answer() {
        return assertTimeoutPreemptively(LIMIT, () -> resp.answer());
    }

    private <T extends Throwable> T refused(Class<T> type) {
        return assertTimeoutPreemptively(LIMIT, () -> assertThrows(type, () -> resp.answer()));
    }

    @Test
    void commandsAreLengthPrefixed() throws Exception {
        resp.begin(3);
        resp.word("SET");
        resp.word("Zürich");
        resp.word(new byte[] {0, '\r', '\n'});
        resp.flush();
        byte[] expected = "*3\r\n$3\r\nSET\r\n$7\r\nZürich\r\n$3\r\n\0\r\n\r\n".getBytes(UTF_8);
        byte[] sent = peer.getInputStream().readNBytes(expected.length);
        assertTrue(Arrays.equals(expected, sent), new String(sent, UTF_8));
    }

    @Test
    void aCommandIsSentAndAnswered() throws Exception {
        answers("+PONG\r\n");
        assertEquals("PONG", assertTimeoutPreemptively(LIMIT, () -> resp.ask("PING")));
        assertEquals("*1\r\n$4\r\nPING\r\n", new String(peer.getInputStream().readNBytes(14), UTF_8));
    }

    @Test
    void statusNumbersAndStringsAreParsed() throws Exception {
        answers("+OK\r\n:42\r\n:-1\r\n$5\r\nhello\r\n$0\r\n\r\n$4\r\na\r\nb\r\n+\r\n$7\r\nZürich\r\n");
        for (String expected : new String[] {"OK", "42", "-1", "hello", "", "a\r\nb", "", "Zürich"}) {
            assertEquals(expected, answer());
        }
    }

    @Test
    void aMissingValueIsNullAndTheNextAnswerIsIntact() throws Exception {
        answers("$-1\r\n+OK\r\n");
        assertNull(answer());
        assertEquals("OK", answer());
    }

    @Test
    void anErrorAnswerIsReportedWithItsCode() throws Exception {
        answers("-NOSCRIPT No matching script.\r\n+OK\r\n");
        RedisProtocol.Refusal refusal = refused(RedisProtocol.Refusal.class);
        assertEquals("NOSCRIPT No matching script.", refusal.getMessage());
        assertTrue(refusal.is("NOSCRIPT"));
        assertFalse(refusal.is("NOSCR"));
        assertEquals("OK", answer(), "the connection is still usable");
    }

    @Test
    void anAnswerMayArriveByteByByte() throws Exception {
        CompletableFuture<Void> slow = CompletableFuture.runAsync(() -> {
            try {
                OutputStream out = peer.getOutputStream();
                for (byte next : "$6\r\nsplit!\r\n:7\r\n".getBytes(UTF_8)) {
                    out.write(next);
                    out.flush();
                    Thread.sleep(2);
                }
            } catch (IOException | InterruptedException error) {
                throw new IllegalStateException(error);
            }
        });
        assertEquals("split!", answer());
        assertEquals("7", answer());
        slow.get();
    }

    @Test
    void aLongStringIsReadCompletely() throws Exception {
        String text = "x".repeat(1 << 18);
        CompletableFuture.runAsync(() -> {
            try {
                answers("$" + text.length() + "\r\n" + text + "\r\n");
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        });
        assertEquals(text, answer());
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "+O", "$5\r\nhel", "$5\r\nhello", "$5\r\nhello\r", ":", "-ERR"})
    void aConnectionThatEndsWithinAnAnswerIsAnError(String text) throws Exception {
        answers(text);
        refused(EOFException.class);
    }

    /** A connection error makes the writer connect again; any other would end the query. */
    @ParameterizedTest
    @ValueSource(strings = {"\r\n", "\n", "*1\r\n+OK\r\n", "HTTP/1.1 400 Bad Request\r\n", "$abc\r\n", "$\r\n", "$-2\r\n",
        "$99999999999\r\n", "$2147483647\r\n", "$5\r\nhelloXY+OK\r\n"})
    void aMalformedAnswerIsAConnectionError(String text) throws Exception {
        answers(text);
        refused(IOException.class);
    }

    /** Until Redis 7 the error of a command in a script has the script's error before it. */
    @ParameterizedTest
    @ValueSource(strings = {
        "OOM command not allowed when used memory > 'maxmemory'.",
        "ERR Error running script (call to f_60): @user_script:17: @user_script: 17: -OOM command not allowed.",
    })
    void theErrorOfACommandInAScriptKeepsItsCode(String text) {
        assertTrue(new RedisProtocol.Refusal(text).is("OOM"));
        assertFalse(new RedisProtocol.Refusal(text).is("WRONGTYPE"));
    }
}
