package dev.eagre.connectors.redis;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.List;

/**
 * The key of a row's hash: the template with the row's key values filled in. With several key columns,
 * {@code %} and the characters between the columns are percent-encoded in the values: otherwise
 * {@code ("x:y", "z")} and {@code ("x", "y:z")} would have the same key in {@code "{a}:{b}"}.
 */
final class RedisKey {
    private static final int ASCII = 128;

    private final List<String> template;
    private final String separators;

    RedisKey(List<String> template) {
        this.template = template;
        boolean several = template.size() > 2;
        this.separators = several ? "%" + String.join("", template.subList(1, template.size() - 1)) : "";
    }

    String of(List<String> values) {
        StringBuilder text = new StringBuilder(template.get(0));
        for (int i = 0; i < values.size(); i++) {
            text.append(encoded(values.get(i))).append(template.get(i + 1));
        }
        return text.toString();
    }

    private String encoded(String value) {
        if (value.chars().noneMatch(c -> separators.indexOf(c) >= 0)) return value;
        StringBuilder text = new StringBuilder();
        value.codePoints().forEach(c -> append(text, c));
        return text.toString();
    }

    private void append(StringBuilder text, int character) {
        if (separators.indexOf(character) < 0) {
            text.appendCodePoint(character);
        } else if (character < ASCII) {
            text.append(String.format("%%%02X", character));
        } else {
            for (byte b : Character.toString(character).getBytes(UTF_8)) {
                text.append(String.format("%%%02X", b & 0xff));
            }
        }
    }
}
