package dev.eagre.spark;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;

/**
 * An expression that is known by its constructor's arguments, as a case class of Scala is: Spark's trees compare and
 * copy nodes by them.
 */
public abstract class ProductExpression extends Expression implements Serializable {
    private final List<Object> arguments;

    /** Takes the arguments of the public constructor, in their order. */
    protected ProductExpression(Object... arguments) {
        this.arguments = List.of(arguments);
    }

    @Override
    public final int productArity() {
        return arguments.size();
    }

    @Override
    public final Object productElement(int index) {
        return arguments.get(index);
    }

    @Override
    public final boolean canEqual(Object other) {
        return other != null && other.getClass() == getClass();
    }

    @Override
    public final boolean equals(Object other) {
        return canEqual(other) && arguments.equals(((ProductExpression) other).arguments);
    }

    @Override
    public final int hashCode() {
        return arguments.hashCode();
    }
}
