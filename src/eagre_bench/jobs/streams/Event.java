package dev.eagre.bench.streams;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonProperty;

/** One event of the field benchmark, which is also its result. */
@JsonIgnoreProperties(ignoreUnknown = true)
record Event(
        @JsonProperty("event_id") String id,
        @JsonProperty("event_time") long time,
        @JsonProperty("payload") String payload)
        implements WithEventTime {}
