package dev.eagre.bench.streams;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonProperty;

/** One event of the payments workloads. */
@JsonIgnoreProperties(ignoreUnknown = true)
record Payment(
        @JsonProperty("id") String id,
        @JsonProperty("event_time") long time,
        @JsonProperty("card") String card,
        @JsonProperty("merchant") String merchant,
        @JsonProperty("amount") long amount)
        implements WithEventTime {}
