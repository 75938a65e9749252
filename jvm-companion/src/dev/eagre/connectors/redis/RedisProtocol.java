package dev.eagre.connectors.redis;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.regex.Pattern;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;

/** The subset of the Redis protocol that a writer needs: commands and short replies. */
final class RedisProtocol {
    private static final int CONNECT_MS = 5_000;
    private static final int TIMEOUT_MS = 10_000;
    private static final int BUFFER = 1 << 16;
    private static final int LARGEST = 512 << 20;

    private final Socket socket;
    private final InputStream in;
    private final OutputStream out;

    /** An error reply, which starts with {@code -}: a code in capitals, then a text. */
    static final class Refusal extends Exception {
        /** Before the error of a command in a script, until Redis 7. */
        private static final Pattern IN_SCRIPT = Pattern.compile("^ERR Error running script .*@user_script: ?\\d+: -?");

        Refusal(String text) {
            super(text);
        }

        boolean is(String code) {
            return IN_SCRIPT.matcher(getMessage()).replaceFirst("").startsWith(code + " ");
        }
    }

    RedisProtocol(String host, int port, boolean encrypted) throws IOException {
        Socket plain = new Socket();
        socket = connected(plain, host, port, encrypted);
        in = new BufferedInputStream(socket.getInputStream(), BUFFER);
        out = new BufferedOutputStream(socket.getOutputStream(), BUFFER);
    }

    private static Socket connected(Socket plain, String host, int port, boolean encrypted) throws IOException {
        try {
            plain.connect(new InetSocketAddress(host, port), CONNECT_MS);
            plain.setTcpNoDelay(true);
            plain.setSoTimeout(TIMEOUT_MS);
            return encrypted ? encrypted(plain, host, port) : plain;
        } catch (IOException error) {
            plain.close();
            throw error;
        }
    }

    /** Opens TLS, and verifies the host name in the certificate. */
    private static Socket encrypted(Socket plain, String host, int port) throws IOException {
        SSLSocketFactory factory = (SSLSocketFactory) SSLSocketFactory.getDefault();
        SSLSocket secure = (SSLSocket) factory.createSocket(plain, host, port, true);
        SSLParameters parameters = secure.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        secure.setSSLParameters(parameters);
        secure.startHandshake();
        return secure;
    }

    /** Sends a command and waits for its reply. */
    String ask(String... words) throws IOException, Refusal {
        begin(words.length);
        for (String word : words) {
            word(word.getBytes(UTF_8));
        }
        flush();
        return answer();
    }

    void begin(int words) throws IOException {
        out.write(("*" + words + "\r\n").getBytes(UTF_8));
    }

    void word(String text) throws IOException {
        word(text.getBytes(UTF_8));
    }

    void word(byte[] bytes) throws IOException {
        out.write(("$" + bytes.length + "\r\n").getBytes(UTF_8));
        out.write(bytes);
        out.write('\r');
        out.write('\n');
    }

    void flush() throws IOException {
        out.flush();
    }

    /** Reads one reply: a word, a number or a string; null for a null string. */
    String answer() throws IOException, Refusal {
        String line = line();
        String rest = line.substring(1);
        return switch (line.charAt(0)) {
            case '+', ':' -> rest;
            case '-' -> throw new Refusal(rest);
            case '$' -> block(length(rest));
            default -> throw new IOException("an answer that no writer expects: " + line.charAt(0));
        };
    }

    /** The length of a string, -1 for null; Redis strings have at most 512 MB. */
    private static int length(String digits) throws IOException {
        try {
            int length = Integer.parseInt(digits);
            if (length >= -1 && length <= LARGEST) return length;
        } catch (NumberFormatException error) {
            // Reported below.
        }
        throw new IOException("an answer of a length that none has: " + digits);
    }

    private String block(int length) throws IOException {
        if (length < 0) return null;
        byte[] bytes = in.readNBytes(length + 2);
        if (bytes.length < length + 2) throw new EOFException("the connection ended");
        if (bytes[length] != '\r' || bytes[length + 1] != '\n') throw new IOException("an answer without its end");
        return new String(bytes, 0, length, UTF_8);
    }

    private String line() throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (int next = in.read(); next != '\n'; next = in.read()) {
            if (next < 0) throw new EOFException("the connection ended");
            if (next != '\r') bytes.write(next);
        }
        if (bytes.size() == 0) throw new IOException("an empty answer");
        return bytes.toString(UTF_8);
    }

    void close() {
        try {
            socket.close();
        } catch (IOException error) {
            // The connection is not used any more in any case.
        }
    }
}
