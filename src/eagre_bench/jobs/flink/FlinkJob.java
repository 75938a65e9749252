package dev.eagre.bench.flink;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.CoreOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.WindowedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.WindowAssigner;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;

/** The workloads in Flink's DataStream API, on a cluster inside this process. */
public final class FlinkJob {
    private static final Duration TUMBLE = Duration.ofSeconds(10);
    private static final Duration ROLL = Duration.ofSeconds(60);
    private static final Duration ROLL_EVERY = Duration.ofSeconds(20);
    private static final Duration OUT_OF_ORDER = Duration.ofSeconds(10);

    private final JobFile job;
    private final Topics topics;
    private final StreamExecutionEnvironment flink;

    private FlinkJob(JobFile job) throws IOException {
        this.job = job;
        this.topics = new Topics(job);
        this.flink = StreamExecutionEnvironment.getExecutionEnvironment(configuration(job));
    }

    public static void main(String[] args) throws Exception {
        new FlinkJob(JobFile.read(args[0])).run();
    }

    private void run() throws Exception {
        results().sinkTo(topics.results()).uid("sink");
        flink.execute(job.group());
    }

    private DataStream<Output> results() {
        return switch (job.workload()) {
            case "field" -> events(Event.class).map(new Functions.Forward()).uid("forward");
            case "stateless" -> events(Payment.class).flatMap(new Functions.Project()).uid("project");
            case "enrich" -> events(Payment.class)
                    .flatMap(new Functions.Enrich(job.merchants()))
                    .uid("enrich");
            case "count" -> events(Payment.class)
                    .keyBy(payment -> payment.card)
                    .flatMap(new Functions.Count())
                    .uid("count");
            case "dedup" -> events(Payment.class)
                    .keyBy(payment -> payment.id)
                    .flatMap(new Functions.Dedup())
                    .uid("dedup");
            case "window" -> windows(TumblingEventTimeWindows.of(TUMBLE))
                    .aggregate(new Windows.Adding(), new Windows.Tumbled())
                    .uid("window");
            case "features" -> windows(SlidingEventTimeWindows.of(ROLL, ROLL_EVERY))
                    .aggregate(new Windows.Adding(), new Windows.Rolled())
                    .uid("features");
            default -> throw new IllegalArgumentException("no workload of Flink: " + job.workload());
        };
    }

    private <T> DataStream<T> events(Class<T> type) {
        return read(type, WatermarkStrategy.noWatermarks());
    }

    private WindowedStream<Payment, String, TimeWindow> windows(
            WindowAssigner<Object, TimeWindow> assigner) {
        WatermarkStrategy<Payment> eventTime =
                WatermarkStrategy.<Payment>forBoundedOutOfOrderness(OUT_OF_ORDER)
                        .withTimestampAssigner((payment, ignored) -> payment.eventTime);
        return read(Payment.class, eventTime)
                .keyBy(payment -> payment.card)
                .window(assigner)
                .trigger(new Windows.Always());
    }

    private <T> DataStream<T> read(Class<T> type, WatermarkStrategy<T> eventTime) {
        return flink.fromSource(topics.source(type), eventTime, "source").uid("source");
    }

    /** The configuration from the fields of the job file, overridden by its settings. */
    private static Configuration configuration(JobFile job) throws IOException {
        Path state = Files.createDirectories(Path.of(job.state()).toAbsolutePath());
        Configuration configuration = new Configuration();
        configuration.set(CoreOptions.DEFAULT_PARALLELISM, 1);
        configuration.set(CoreOptions.TMP_DIRS, state.resolve("local").toString());
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(job.epochMs()));
        configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, "file://" + state);
        job.eachOfFlink(configuration::setString);
        resume(configuration);
        return configuration;
    }

    private static void resume(Configuration configuration) throws IOException {
        var root = new org.apache.flink.core.fs.Path(
                configuration.get(CheckpointingOptions.CHECKPOINTS_DIRECTORY));
        Path folder = Files.createDirectories(Path.of(root.getPath()));
        Checkpoints.newest(folder).ifPresent(newest -> configuration.set(
                StateRecoveryOptions.SAVEPOINT_PATH, root + "/" + folder.relativize(newest)));
    }
}
