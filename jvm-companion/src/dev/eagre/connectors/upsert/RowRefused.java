package dev.eagre.connectors.upsert;

/** The database refuses the values of a row; it would accept others. */
public final class RowRefused extends DatabaseException {
    public RowRefused(String problem, String hint) {
        super("DATABASE_REFUSED", problem, hint);
    }
}
