package dev.eagre.deadletter;

import com.fasterxml.jackson.databind.JsonNode;
import dev.eagre.commit.InFlightOffsets;
import dev.eagre.commit.RecordPosition;
import dev.eagre.connectors.formats.JsonErrors;
import dev.eagre.connectors.formats.ValueFormat;
import dev.eagre.metrics.SourceDelays;
import dev.eagre.spark.OncePerRow;
import java.io.Serializable;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * The columns of a record's value, as a struct. It is null for a record that cannot be parsed. Such a
 * record has then been sent as a dead letter, or dropped and counted, or it fails the query.
 *
 * <p>Its children are the parsed value, then value, key, headers, topic, partition, offset and timestamp. It
 * evaluates the first one itself, to catch the parser's exceptions. It is declared as not
 * deterministic, so that Spark evaluates it once per record and moves no filter below it.
 */
public final class ParseRecord extends OncePerRow {
    private static final int PARSED = 0;
    private static final int VALUE = 1;
    private static final int KEY = 2;
    private static final int HEADERS = 3;
    private static final int TOPIC = 4;
    private static final int PARTITION = 5;
    private static final int OFFSET = 6;
    private static final int TIMESTAMP = 7;

    private final Rules rules;
    private final Seq<Expression> children;
    private transient Expression[] parts;
    private transient ValueFormat format;
    private transient Set<RecordPosition> quarantine;
    private transient ErrorPolicy policy;
    private transient InFlightOffsets offsets;
    private transient InFlightOffsets.ThreadPosition position;
    private transient SourceDelays delays;
    private transient UTF8String readTopic;
    private transient int readPartition;

    /** The policy, as JSON; it contains client settings, which must not appear in a plan. */
    public record Rules(String json, SuspectRecords suspects) implements Serializable {
        @Override
        public String toString() {
            return "rules";
        }
    }

    /** Spark's trees copy nodes through their public constructor. */
    public ParseRecord(Rules rules, Seq<Expression> children) {
        super(rules, children);
        this.rules = rules;
        this.children = children;
    }

    Rules rules() {
        return rules;
    }

    /** The number of sources in a plan that parse their records with this expression. */
    public static int countIn(LogicalPlan plan) {
        return QueryContext.sources(plan).size();
    }

    @Override
    public Object eval(InternalRow row) {
        if (parts == null) initialize();
        UTF8String topic = (UTF8String) parts[TOPIC].eval(row);
        int partition = (Integer) parts[PARTITION].eval(row);
        long offset = (Long) parts[OFFSET].eval(row);
        if (position != null) offsets.read(position, topic, partition, offset);
        delays(topic, partition).read((Long) parts[TIMESTAMP].eval(row));
        if (policy.hasEarlier() && policy.alreadyWritten(new RecordPosition(topic.toString(), partition, offset), 0)) return null;
        if (!quarantine.isEmpty() && quarantine.contains(new RecordPosition(topic.toString(), partition, offset))) {
            policy.send(deadLetter(row, "QUARANTINED: this record crashed its task repeatedly"), 0);
            return null;
        }
        String problem = format.fault((byte[]) parts[VALUE].eval(row));
        if (problem == null) {
            try {
                Object parsed = parts[PARSED].eval(row);
                if (parsed != null) return parsed;
                problem = "the parser returned nothing";
            } catch (Exception | StackOverflowError error) {
                problem = JsonErrors.reason(error);
            }
        }
        policy.apply("RECORD_REFUSED", deadLetter(row, "UNPARSABLE: " + problem), 0);
        return null;
    }

    private SourceDelays delays(UTF8String topic, int partition) {
        if (delays == null || partition != readPartition || !topic.equals(readTopic)) {
            readTopic = topic.clone();
            readPartition = partition;
            delays = SourceDelays.of(topic, partition);
        }
        return delays;
    }

    private void initialize() {
        JsonNode json = ErrorPolicy.read(rules.json());
        format = ValueFormat.named(json.get("format").asText());
        quarantine = new HashSet<>();
        for (JsonNode entry : json.get("quarantine")) {
            quarantine.add(new RecordPosition(entry.get(0).asText(), entry.get(1).asInt(), entry.get(2).asLong()));
        }
        policy = ErrorPolicy.forThisTask(json, "source");
        offsets = InFlightOffsets.begin(rules.suspects()::failed);
        position = offsets == null ? null : offsets.mine();
        parts = new Expression[children.size()];
        for (int i = 0; i < parts.length; i++) {
            parts[i] = children.apply(i);
        }
    }

    private DeadLetter deadLetter(InternalRow row, String reason) {
        RecordPosition position = new RecordPosition(
                parts[TOPIC].eval(row).toString(), (Integer) parts[PARTITION].eval(row), (Long) parts[OFFSET].eval(row));
        SourceRecord original = new SourceRecord((byte[]) parts[KEY].eval(row), (byte[]) parts[VALUE].eval(row),
                SourceRecord.headers((ArrayData) parts[HEADERS].eval(row)));
        return DeadLetter.of(position, reason, original);
    }

    @Override
    public Seq<Expression> children() {
        return children;
    }

    @Override
    public Expression withNewChildrenInternal(IndexedSeq<Expression> changed) {
        return new ParseRecord(rules, changed);
    }

    @Override
    public DataType dataType() {
        return children.head().dataType();
    }

    @Override
    public String prettyName() {
        return "parse_record";
    }

    @Override
    public String toString() {
        return "parse_record(" + children.head() + ")";
    }
}
