package dev.eagre.bench.flink;

import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.annotation.JsonProperty;

/** One event of the field benchmark, which is also its result. */
@JsonIgnoreProperties(ignoreUnknown = true)
public record Event(
        @JsonProperty("event_id") String id,
        @JsonProperty("event_time") long time,
        @JsonProperty("payload") String payload) {}
