package dev.eagre.bench.flink;

import java.io.File;
import java.io.IOException;
import java.util.Map;
import java.util.Properties;
import java.util.function.BiConsumer;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.annotation.JsonProperty;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

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
    private static final String CONSUMER = "consumer.";
    private static final String PRODUCER = "producer.";

    static JobFile read(String path) throws IOException {
        return new ObjectMapper().readValue(new File(path), JobFile.class);
    }

    Properties consumer() {
        return named(CONSUMER);
    }

    Properties producer() {
        return named(PRODUCER);
    }

    /** Applies the settings of Flink itself, without those of the consumer and the producer. */
    void eachOfFlink(BiConsumer<String, String> use) {
        settings.forEach((name, value) -> {
            if (!name.startsWith(CONSUMER) && !name.startsWith(PRODUCER)) {
                use.accept(name, value);
            }
        });
    }

    private Properties named(String prefix) {
        Properties properties = new Properties();
        settings.forEach((name, value) -> {
            if (name.startsWith(prefix)) {
                properties.setProperty(name.substring(prefix.length()), value);
            }
        });
        return properties;
    }
}
