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
    void anObjectIsTaken(String value) {
        assertNull(fault(value));
    }

    /** What is wrong inside of an object, the parser tells. */
    @ParameterizedTest
    @ValueSource(strings = {"{\"a\": ", "{\"a\": \"never ends", "{", "{\"a\": \"\\"})
    void anObjectThatDoesNotEndIsLeftToTheParser(String value) {
        assertNull(fault(value));
    }

    @ParameterizedTest
    @ValueSource(strings = {"[1]", "5", "\"{}\"", "null", "a{}", "}"})
    void anythingElseIsNoObject(String value) {
        assertEquals("the value is not a JSON object", fault(value));
    }

    @Test
    void noValueIsTold() {
        assertEquals("the record has no value", JsonErrors.fault(null));
        assertEquals("the value is empty", fault(""));
        assertEquals("the value is empty", fault(" \r\n\t"));
    }

    @Test
    void whatFollowsAnObjectIsTold() {
        String told = "unexpected data after the JSON object, at byte ";
        assertEquals(told + 2, fault("{}{}"));
        assertEquals(told + 3, fault("{} x"));
        assertEquals(told + 10, fault("{\"a\": \"}\"}}"));
        assertEquals(told + 10, fault("{\"a\": 1}\n\n{\"a\": 2}"));
    }

    @Test
    void bytesThatAreNoUtf8AreTold() {
        assertEquals(JsonErrors.NOT_UTF8, JsonErrors.fault(new byte[] {'{', '"', (byte) 0xff, '"', '}'}));
        assertEquals(JsonErrors.NOT_UTF8, JsonErrors.fault(new byte[] {(byte) 0xfe, (byte) 0xff, 0, '{'}));
        assertEquals(JsonErrors.NOT_UTF8, JsonErrors.fault(new byte[] {'{', '}', (byte) 0xc3}), "a character cut short");
    }

    @Test
    void theParsersReasonHasItsPlace() {
        Exception error =
                assertThrows(JsonProcessingException.class, () -> new ObjectMapper().readTree("{\"a\": nope}"));
        String reason = JsonErrors.reason(new IllegalStateException("outer", error));
        assertTrue(reason.startsWith("Unrecognized token 'nope'"), reason);
        assertTrue(reason.endsWith(", line 1 column 7"), reason);
    }

    @Test
    void sparksCodesAndStatesAreLeftOut() {
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
    void anErrorWithoutWordsIsNamed() {
        assertEquals("ArithmeticException", JsonErrors.reason(new ArithmeticException("")));
        assertEquals("NullPointerException", JsonErrors.reason(new IllegalStateException(new NullPointerException())));
    }
}
