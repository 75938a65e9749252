package dev.eagre.deadletter;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.LinkedHashMap;
import java.util.Map;

/** The dead-letter topics of a pipeline, and their clusters. */
final class DeadLetterTopics {
    private final JsonNode json;

    DeadLetterTopics(JsonNode json) {
        this.json = json;
    }

    /** The dead-letter topic for a row; its source topic is null if unknown. */
    String topic(String source) {
        return source == null ? json.get("topic").asText() : source + json.get("suffix").asText();
    }

    /** The source topic of a dead-letter topic. */
    String source(String topic) {
        String suffix = json.get("suffix").asText();
        return topic.endsWith(suffix) ? topic.substring(0, topic.length() - suffix.length()) : topic;
    }

    /** The client settings for a source topic's cluster; for the first source's cluster if it is unknown. */
    Map<String, Object> settings(String source) {
        JsonNode clusters = json.get("clusters");
        JsonNode cluster = source != null && clusters.has(source) ? clusters.get(source) : clusters.elements().next();
        return settings(cluster);
    }

    static Map<String, Object> settings(JsonNode json) {
        Map<String, Object> settings = new LinkedHashMap<>();
        json.properties().forEach(entry -> settings.put(entry.getKey(), entry.getValue().asText()));
        return settings;
    }
}
