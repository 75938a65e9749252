package dev.eagre.spark;

import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;

/**
 * An expression with effects: Spark evaluates it once per row, where it was written, and neither moves nor copies it.
 * An instance serves one task.
 */
public abstract class OncePerRow extends ProductExpression implements CodegenFallback {
    /** Takes the arguments of the public constructor, in their order. */
    protected OncePerRow(Object... arguments) {
        super(arguments);
    }

    @Override
    public final boolean nullable() {
        return true;
    }

    @Override
    public final boolean deterministic() {
        return false;
    }

    @Override
    public final boolean foldable() {
        return false;
    }

    @Override
    public final boolean stateful() {
        return true;
    }

    @Override
    public ExprCode doGenCode(CodegenContext context, ExprCode code) {
        return CodegenFallback.super.doGenCode(context, code);
    }
}
