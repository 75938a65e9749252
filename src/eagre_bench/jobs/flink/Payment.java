package dev.eagre.bench.flink;

import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.annotation.JsonProperty;

/** One event of the payments workloads; a POJO by Flink's rules, so that no Kryo is involved. */
@JsonIgnoreProperties(ignoreUnknown = true)
public class Payment {
    public String id;
    public String card;
    public String merchant;
    public long amount;

    @JsonProperty("event_time")
    public long eventTime;
}
