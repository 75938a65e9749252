package dev.eagre.connectors.formats;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonErrorsTest {
    private static String fault(String value) {
        return JsonErrors.fault(value.getBytes(StandardCharsets.UTF_8));
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "{}", " \t\r\n{\"a\": 1}\n ", "{\"a\": {\"b\": [1, {\"c\": 2}]}}", "{\"a\": \"}\"}", "{\"a\": \"\\\"}\"}",
        "{\"a\\\\\": 1}", "{'a': '}'}", "{\"name\": \"Zürich 🌊\"}"
    })
    void anObjectIsAccepted(String value) {
        assertNull(fault(value));
    }

    /** The parser reports errors inside an object. */
    @ParameterizedTest
    @ValueSource(strings = {"{\"a\": ", "{\"a\": \"never ends", "{", "{\"a\": \"\\"})
    void aTruncatedObjectIsLeftToTheParser(String value) {
        assertNull(fault(value));
    }

    @ParameterizedTest
    @ValueSource(strings = {"[1]", "5", "\"{}\"", "null", "a{}", "}"})
    void anythingElseIsNotAnObject(String value) {
        assertEquals("the value is not a JSON object", fault(value));
    }

    @Test
    void aMissingValueIsReported() {
        assertEquals("the record has no value", JsonErrors.fault(null));
        assertEquals("the value is empty", fault(""));
        assertEquals("the value is empty", fault(" \r\n\t"));
    }

    @Test
    void trailingDataIsReported() {
        String message = "unexpected data after the JSON object, at byte ";
        assertEquals(message + 2, fault("{}{}"));
        assertEquals(message + 3, fault("{} x"));
        assertEquals(message + 10, fault("{\"a\": \"}\"}}"));
        assertEquals(message + 10, fault("{\"a\": 1}\n\n{\"a\": 2}"));
    }

    @Test
    void invalidUtf8IsReported() {
        assertEquals(JsonErrors.NOT_UTF8, JsonErrors.fault(new byte[] {'{', '"', (byte) 0xff, '"', '}'}));
        assertEquals(JsonErrors.NOT_UTF8, JsonErrors.fault(new byte[] {(byte) 0xfe, (byte) 0xff, 0, '{'}));
        assertEquals(JsonErrors.NOT_UTF8, JsonErrors.fault(new byte[] {'{', '}', (byte) 0xc3}), "a truncated character");
    }

    @Test
    void theParsersReasonIncludesThePosition() {
        Exception error =
                assertThrows(JsonProcessingException.class, () -> new ObjectMapper().readTree("{\"a\": nope}"));
        String reason = JsonErrors.reason(new IllegalStateException("outer", error));
        assertTrue(reason.startsWith("Unrecognized token 'nope'"), reason);
        assertTrue(reason.endsWith(", line 1 column 7"), reason);
    }

    @Test
    void sparksErrorCodesAreRemoved() {
        assertEquals("Cannot parse the field.",
                JsonErrors.reason(new RuntimeException("[CANNOT_PARSE_JSON.FIELD] Cannot parse the field. SQLSTATE: 2203G\nmore")));
    }

    @Test
    void aReasonIsOneLineOfAtMostThreeHundredCharacters() {
        assertEquals("first", JsonErrors.reason(new RuntimeException("first\nsecond")));
        String reason = JsonErrors.reason(new RuntimeException("x".repeat(1000)));
        assertEquals("x".repeat(300) + "…", reason);
    }

    @Test
    void anErrorWithoutAMessageIsNamedByItsClass() {
        assertEquals("ArithmeticException", JsonErrors.reason(new ArithmeticException("")));
        assertEquals("NullPointerException", JsonErrors.reason(new IllegalStateException(new NullPointerException())));
    }
}
