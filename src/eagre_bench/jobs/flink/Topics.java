package dev.eagre.bench.flink;

import java.io.IOException;
import org.apache.flink.api.common.serialization.DeserializationSchema.InitializationContext;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectReader;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/** The source and the sink of the job. */
final class Topics {
    private final JobFile job;

    Topics(JobFile job) {
        this.job = job;
    }

    <T> KafkaSource<T> source(Class<T> type) {
        return KafkaSource.<T>builder()
                .setBootstrapServers(job.brokers())
                .setTopics(job.source())
                .setGroupId(job.group())
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setProperties(job.consumer())
                .setDeserializer(new Parsed<>(type))
                .build();
    }

    KafkaSink<Output> results() {
        return KafkaSink.<Output>builder()
                .setBootstrapServers(job.brokers())
                .setKafkaProducerConfig(job.producer())
                .setRecordSerializer(new Results(job.sink()))
                .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
                .build();
    }

    /** JSON objects of one type. */
    private static final class Parsed<T> implements KafkaRecordDeserializationSchema<T> {
        private static final long serialVersionUID = 1;
        private final Class<T> type;
        private transient ObjectReader json;

        Parsed(Class<T> type) {
            this.type = type;
        }

        @Override
        public void open(InitializationContext context) {
            json = new ObjectMapper().readerFor(type);
        }

        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<T> out)
                throws IOException {
            out.collect(json.readValue(record.value()));
        }

        @Override
        public TypeInformation<T> getProducedType() {
            return TypeInformation.of(type);
        }
    }

    /** Without a timestamp, so that a result carries the time it was sent and not its event's. */
    private record Results(String topic) implements KafkaRecordSerializationSchema<Output> {
        @Override
        public ProducerRecord<byte[], byte[]> serialize(
                Output result, KafkaSinkContext context, Long timestamp) {
            return new ProducerRecord<>(topic, result.key(), result.value());
        }
    }
}
