package dev.eagre.bench.streams;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.util.Map;

/** The configuration of the job: the JSON file that ../README.md describes. */
@JsonIgnoreProperties(ignoreUnknown = true)
record JobFile(
        String workload,
        String brokers,
        String source,
        String sink,
        String group,
        @JsonProperty("epoch_ms") long epochMs,
        String state,
        String merchants,
        Map<String, String> settings) {
    static JobFile read(String path) throws IOException {
        return new ObjectMapper().readValue(new File(path), JobFile.class);
    }
}
