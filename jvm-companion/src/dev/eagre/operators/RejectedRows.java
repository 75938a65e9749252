package dev.eagre.operators;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import dev.eagre.commit.RecordPosition;
import dev.eagre.deadletter.DeadLetter;
import dev.eagre.deadletter.ErrorPolicy;
import dev.eagre.python.codec.Codec;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Rows that an operator cannot process. The error policy of the pipeline's source applies to them. */
final class RejectedRows {
    private static final String SOURCE = "_source";

    private final ErrorPolicy policy;
    private final List<StructType> packed = new ArrayList<>();
    private final int side;

    /**
     * Reads the spec of an operator: {@code errors} is the policy, {@code packed} the types of its packed rows, one
     * for each side, and {@code side} the column with the number of the side, if there are two.
     */
    RejectedRows(JsonNode spec) {
        JsonNode dropped = JsonNodeFactory.instance.objectNode()
                .put("pipeline", spec.get("pipeline").asText())
                .put("on_error", "drop");
        JsonNode errors = spec.path("errors");
        policy = new ErrorPolicy(errors.isObject() ? errors : dropped, spec.get("operator").asText());
        spec.path("packed").forEach(type -> packed.add((StructType) DataType.fromJson(type.toString())));
        side = spec.path("side").asInt(-1);
    }

    /** Applies the policy to a row. */
    void reject(String code, String reason, Row row) {
        policy.apply(code, DeadLetter.of(position(row), code + ": " + reason), 0);
    }

    /** Waits until all dead letters are delivered, before the epoch ends. */
    void flush() {
        policy.flush();
    }

    /** The position of a row's record; null if the row does not carry it. */
    private RecordPosition position(Row row) {
        if (packed.isEmpty()) return null;
        StructType type = packed.get(packed.size() == 1 ? 0 : row.getInt(side));
        if (type.getFieldIndex(SOURCE).isEmpty()) return null;
        int index = type.fieldIndex(SOURCE);
        InternalRow whole = new Codec.RowCodec(type).fromBytes(row.getAs(row.length() - 1));
        if (whole.isNullAt(index)) return null;
        StructType source = (StructType) type.apply(index).dataType();
        InternalRow record = whole.getStruct(index, source.length());
        return new RecordPosition(record.getUTF8String(source.fieldIndex("topic")).toString(),
                record.getInt(source.fieldIndex("partition")), record.getLong(source.fieldIndex("offset")));
    }
}
