package dev.eagre.python.worker;

import java.io.Serializable;
import java.util.Arrays;
import java.util.Objects;
import org.apache.spark.sql.types.DataType;

/** A user's function: its code, its return type, and its options. */
public final class FunctionSpec implements Serializable {
    public final String name;
    public final byte[] code;
    public final DataType returns;
    public final String options;

    /**
     * @param name its name in messages
     * @param code the function, pickled
     * @param returns the type of its results
     * @param options {@link FunctionOptions} as JSON
     */
    public FunctionSpec(String name, byte[] code, DataType returns, String options) {
        this.name = name;
        this.code = code;
        this.returns = returns;
        this.options = options;
    }

    /** The same function with other options. */
    public FunctionSpec with(String changed) {
        return new FunctionSpec(name, code, returns, changed);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof FunctionSpec that
                && name.equals(that.name)
                && returns.equals(that.returns)
                && options.equals(that.options)
                && Arrays.equals(code, that.code);
    }

    @Override
    public int hashCode() {
        return Objects.hash(name, returns, options, Arrays.hashCode(code));
    }

    @Override
    public String toString() {
        return name;
    }
}
