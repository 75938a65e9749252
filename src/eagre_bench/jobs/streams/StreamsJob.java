package dev.eagre.bench.streams;

import java.io.IOException;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/** The workloads in Kafka Streams. */
public final class StreamsJob {
    private StreamsJob() {}

    public static void main(String[] args) throws IOException {
        JobFile job = JobFile.read(args[0]);
        KafkaStreams streams = new KafkaStreams(new Workloads(job).topology(), properties(job));
        streams.setUncaughtExceptionHandler(StreamsJob::fail);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }

    private static StreamThreadExceptionResponse fail(Throwable cause) {
        cause.printStackTrace();
        Runtime.getRuntime().halt(1);
        return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    }

    /**
     * The configuration from the fields of the job file, overridden by its settings. As a static member, a
     * killed job gets its partitions back immediately, not after its session has timed out.
     */
    private static Properties properties(JobFile job) {
        Properties properties = new Properties();
        properties.setProperty(StreamsConfig.APPLICATION_ID_CONFIG, job.group());
        properties.setProperty(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, job.brokers());
        properties.setProperty(StreamsConfig.STATE_DIR_CONFIG, job.state());
        properties.setProperty(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, Long.toString(job.epochMs()));
        properties.setProperty(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG, job.group());
        job.settings().forEach(properties::setProperty);
        return properties;
    }
}
