package dev.eagre.deadletter;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.LinkedHashMap;
import java.util.Map;

/** Where the dead letters of a pipeline go: the topics, and the clusters they are on. */
final class DeadLetterTopics {
    private final JsonNode json;

    DeadLetterTopics(JsonNode json) {
        this.json = json;
    }

    /** The topic for a row; its source topic is null if nobody knows it. */
    String topic(String source) {
        return source == null ? json.get("topic").asText() : source + json.get("suffix").asText();
    }

    /** The topic that a topic of letters belongs to. */
    String source(String topic) {
        String suffix = json.get("suffix").asText();
        return topic.endsWith(suffix) ? topic.substring(0, topic.length() - suffix.length()) : topic;
    }

    /** The client settings of a source topic's cluster; of the first source's, if it is not known. */
    Map<String, Object> settings(String source) {
        JsonNode clusters = json.get("clusters");
        JsonNode one = source != null && clusters.has(source) ? clusters.get(source) : clusters.elements().next();
        return settings(one);
    }

    static Map<String, Object> settings(JsonNode json) {
        Map<String, Object> settings = new LinkedHashMap<>();
        json.properties().forEach(entry -> settings.put(entry.getKey(), entry.getValue().asText()));
        return settings;
    }
}
