package dev.eagre.connectors.postgres;

import com.fasterxml.jackson.databind.JsonNode;
import dev.eagre.connectors.upsert.ConnectionLost;
import dev.eagre.connectors.upsert.Database;
import dev.eagre.connectors.upsert.DatabaseAddress;
import dev.eagre.connectors.upsert.DatabaseException;
import dev.eagre.connectors.upsert.RowRefused;
import dev.eagre.connectors.upsert.RowVersion;
import dev.eagre.connectors.upsert.Upsert;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * A PostgreSQL table. Values are sent as untyped text, which the server converts to the type of the
 * column. The driver is on Spark's class path but not on the companion's, so it is looked up by name.
 */
public final class Postgres implements Database {
    private static final int PORT = 5432;
    private static final int TIMEOUT_SECONDS = 10;
    private static final Map<String, String> SETTINGS = Map.of(
            "ApplicationName", "eagre",
            "connectTimeout", "5",
            "logServerErrorDetail", "false",
            "reWriteBatchedInserts", "true",
            "socketTimeout", String.valueOf(TIMEOUT_SECONDS),
            "stringtype", "unspecified",
            "tcpKeepAlive", "true");

    private static final String REJECTED = "08004";
    private static final String TWICE_IN_ONE_STATEMENT = "21000";
    private static final String TABLE_MISSING = "42P01";
    /** Connection errors, too many connections, retryable transactions, a server that shuts down, starts, or is a replica. */
    private static final Set<String> PASSING = Set.of("08", "25006", "53", "40", "57P");
    /** Errors of a row: unfit values, constraints, the condition of a view, limits of an index, what a trigger raises. */
    private static final Set<String> ROW = Set.of("22", "23", "44", "54", "P0");
    /** Another task created the table at the same time. */
    private static final Set<String> EXISTS = Set.of("42P07", "23505");

    private final JsonNode spec;
    private final String upsert;

    public Postgres(JsonNode spec) {
        this.spec = spec;
        this.upsert = spec.get("upsert").asText();
    }

    @Override
    public String name() {
        DatabaseAddress address = address();
        return "PostgreSQL at " + address.host + ":" + address.port;
    }

    @Override
    public Link connect() throws ConnectionLost {
        DatabaseAddress address = address();
        Properties properties = new Properties();
        properties.putAll(SETTINGS);
        if (address.user != null) properties.put("user", address.user);
        if (address.password != null) properties.put("password", address.password);
        String options = address.query == null ? "" : "?" + address.query;
        String url = "jdbc:postgresql://" + address.host + ":" + address.port + "/" + address.path + options;
        try {
            return new Session(driver().connect(url, properties));
        } catch (SQLException error) {
            throw judged(error);
        }
    }

    private DatabaseAddress address() {
        return DatabaseAddress.of(spec, "DATABASE_URL", PORT, "PGUSER", "PGPASSWORD");
    }

    private static Driver driver() {
        try {
            ClassLoader loader = Thread.currentThread().getContextClassLoader();
            return (Driver) Class.forName("org.postgresql.Driver", true, loader)
                    .getConstructor()
                    .newInstance();
        } catch (ReflectiveOperationException error) {
            throw new DatabaseException(
                    "DRIVER_MISSING",
                    "PostgreSQL's driver is not on Spark's class path.",
                    "create the session with eg.session() or eg.configure(builder).");
        }
    }

    /** Returns for a temporary error of a write; throws a permanent one, of a row or of the whole write. */
    private ConnectionLost judgedWrite(SQLException error) {
        SQLException first = first(error);
        if (ROW.stream().anyMatch(state(first)::startsWith)) {
            throw new RowRefused(problem(first), "fix the table, or filter out such rows in the pipeline function.");
        }
        return judged(error);
    }

    /** Returns for a temporary error; throws a permanent one. */
    private ConnectionLost judged(SQLException error) {
        SQLException first = first(error);
        String state = state(first);
        if (!state.equals(REJECTED) && PASSING.stream().anyMatch(state::startsWith)) return new ConnectionLost(reason(first));
        boolean login = state.startsWith("28") || state.equals(REJECTED);
        throw new DatabaseException(
                login ? "DATABASE_LOGIN" : "DATABASE_REFUSED",
                problem(first),
                login
                        ? "user and password come from the file named in credentials=, else from PGUSER and PGPASSWORD,"
                                + " or from PGPASSFILE."
                        : "check the table and the permissions of the user.");
    }

    /** The error of a row, which a batch hides behind its own. */
    private static SQLException first(SQLException error) {
        return error.getNextException() == null ? error : error.getNextException();
    }

    private static String state(SQLException error) {
        return String.valueOf(error.getSQLState());
    }

    private String problem(SQLException error) {
        return name() + " refuses: " + reason(error) + " (SQLSTATE " + state(error) + ").";
    }

    /** The first line of the server's message; the other lines may contain rows. */
    private static String reason(SQLException error) {
        String line = String.valueOf(error.getMessage()).strip().split("\n")[0];
        return line.replaceFirst("^(FATAL|ERROR): ", "").replaceFirst("\\.$", "");
    }

    /** A connection, with its prepared statement. */
    private final class Session implements Link {
        private final Connection connection;
        private PreparedStatement statement;

        Session(Connection connection) {
            this.connection = connection;
        }

        @Override
        public void prepare() throws ConnectionLost {
            try {
                SQLException unfit = unfit();
                if (unfit != null && TABLE_MISSING.equals(unfit.getSQLState()) && spec.get("create").asBoolean()) {
                    create();
                    unfit = unfit();
                }
                if (unfit != null) throw explained(unfit);
            } catch (SQLException error) {
                throw judged(error);
            }
        }

        /** Plans the write without running it: the server reports mismatches. */
        private SQLException unfit() throws SQLException {
            try (Statement statement = connection.createStatement()) {
                statement.execute("EXPLAIN " + spec.get("check").asText());
                return null;
            } catch (SQLException error) {
                if (String.valueOf(error.getSQLState()).startsWith("42")) return error;
                throw error;
            }
        }

        private void create() throws SQLException {
            try (Statement statement = connection.createStatement()) {
                statement.execute(spec.get("ddl").asText());
            } catch (SQLException error) {
                if (!EXISTS.contains(error.getSQLState())) throw error;
            }
        }

        private DatabaseException explained(SQLException error) {
            boolean missing = TABLE_MISSING.equals(error.getSQLState());
            return new DatabaseException(
                    missing ? "TABLE_MISSING" : "TABLE_UNFIT",
                    "rows cannot be written to the table " + spec.get("table").asText() + " of " + name() + ": "
                            + reason(error) + ".",
                    (missing ? "create it, or set create=True: " : "this table would match: ")
                            + spec.get("ddl").asText());
        }

        @Override
        public void write(List<Upsert> rows) throws ConnectionLost {
            SortedMap<String, List<Upsert>> chains = new TreeMap<>();
            rows.forEach(row -> link(chains.computeIfAbsent(String.join("\0", row.key()), k -> new ArrayList<>()), row));
            try {
                for (int turn = 0; !chains.isEmpty(); turn++) {
                    int next = turn;
                    execute(chains.values().stream().map(chain -> chain.get(next)).toList());
                    chains.values().removeIf(chain -> chain.size() == next + 1);
                }
            } catch (SQLException error) {
                throw judgedWrite(error);
            }
        }

        /**
         * Adds a row to the rows of its key. One statement may not update a table row twice: of the rows from one
         * source only the newest is written, and rows from another source wait for the next statement.
         */
        private static void link(List<Upsert> chain, Upsert row) {
            int last = chain.size() - 1;
            if (last >= 0 && chain.get(last).version().sameSource(row.version())) {
                chain.set(last, chain.get(last).or(row));
            } else {
                chain.add(row);
            }
        }

        /**
         * Writes rows of different keys, in the same order in all tasks, to avoid deadlocks. A table may treat keys
         * as equal that differ as text; these are written one by one.
         */
        private void execute(List<Upsert> rows) throws SQLException {
            try {
                batch(rows);
            } catch (SQLException error) {
                if (!TWICE_IN_ONE_STATEMENT.equals(error.getSQLState())) throw error;
                for (Upsert row : rows) {
                    batch(List.of(row));
                }
            }
        }

        private void batch(List<Upsert> rows) throws SQLException {
            if (statement == null) statement = connection.prepareStatement(upsert);
            for (Upsert row : rows) {
                bind(row);
                statement.addBatch();
            }
            statement.executeBatch();
        }

        private void bind(Upsert row) throws SQLException {
            int at = 0;
            for (Object value : row.values()) {
                bind(++at, value);
            }
            RowVersion version = row.version();
            statement.setString(++at, version.source());
            statement.setLong(++at, version.offset());
            statement.setInt(++at, version.ordinal());
            statement.setString(++at, Instant.ofEpochMilli(version.time()).toString());
        }

        private void bind(int at, Object value) throws SQLException {
            if (value == null) statement.setNull(at, Types.OTHER);
            else if (value instanceof byte[] bytes) statement.setBytes(at, bytes);
            else statement.setString(at, (String) value);
        }

        @Override
        public void close() {
            try {
                connection.close();
            } catch (SQLException error) {
                // The connection is not used any more in any case.
            }
        }
    }
}
