package dev.eagre.connectors.redis;

import com.fasterxml.jackson.databind.JsonNode;
import dev.eagre.connectors.upsert.ConnectionLost;
import dev.eagre.connectors.upsert.Database;
import dev.eagre.connectors.upsert.DatabaseAddress;
import dev.eagre.connectors.upsert.DatabaseException;
import dev.eagre.connectors.upsert.RowRefused;
import dev.eagre.connectors.upsert.RowVersion;
import dev.eagre.connectors.upsert.Upsert;
import java.io.IOException;
import java.util.List;
import java.util.Set;

/** Redis hashes, one per row; a script compares the versions on the server. */
public final class Redis implements Database {
    private static final int PORT = 6379;

    /**
     * The rule of {@link RowVersion}, and the write. Numbers are compared as text, because Lua numbers are
     * exact only to 53 bits.
     */
    private static final String SCRIPT = """
            local function above(a, b)
              if a == b then return false end
              local below, other = a:sub(1, 1) == '-', b:sub(1, 1) == '-'
              if below ~= other then return other end
              if #a ~= #b then return (#a > #b) ~= below end
              return (a > b) ~= below
            end
            local source, offset, ordinal, time = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
            local stored = redis.call('HMGET', KEYS[1], '_eagre_source', '_eagre_offset', '_eagre_ordinal', '_eagre_time')
            if stored[1] == source then
              if offset == stored[2] then
                if not above(ordinal, stored[3]) then return 0 end
              elseif not above(offset, stored[2]) then return 0 end
              if above(stored[4], time) then time = stored[4] end
            elseif stored[1] then
              if time == stored[4] then
                if source < stored[1] then return 0 end
              elseif not above(time, stored[4]) then return 0 end
            end
            local set = {'_eagre_source', source, '_eagre_offset', offset, '_eagre_ordinal', ordinal, '_eagre_time', time}
            local named = tonumber(ARGV[5])
            for i = 6, 5 + 2 * named do set[#set + 1] = ARGV[i] end
            redis.call('HSET', KEYS[1], unpack(set))
            for i = 6 + 2 * named, #ARGV do redis.call('HDEL', KEYS[1], ARGV[i]) end
            return 1
            """;

    private static final Set<String> LOGIN = Set.of("NOAUTH", "WRONGPASS", "NOPERM");
    /** The server is starting, has no master, has become a replica, is busy, or has no memory, disk or replicas left. */
    private static final Set<String> PASSING = Set.of(
            "LOADING", "MASTERDOWN", "READONLY", "BUSY", "TRYAGAIN", "OOM", "MISCONF", "NOREPLICAS");
    /** A key of this name holds something else than a hash. */
    private static final String WRONG_TYPE = "WRONGTYPE";

    private final JsonNode spec;
    private final List<String> columns;
    private final RedisKey key;

    public Redis(JsonNode spec) {
        this.spec = spec;
        this.columns = Database.texts(spec.get("columns"));
        this.key = new RedisKey(Database.texts(spec.get("template")));
    }

    @Override
    public String name() {
        DatabaseAddress address = address();
        return "Redis at " + address.host + ":" + address.port;
    }

    private DatabaseAddress address() {
        return DatabaseAddress.of(spec, "REDIS_URL", PORT, "REDIS_USERNAME", "REDIS_PASSWORD");
    }

    @Override
    public Link connect() throws ConnectionLost {
        DatabaseAddress address = address();
        RedisProtocol resp = null;
        try {
            resp = new RedisProtocol(address.host, address.port, "rediss".equals(address.scheme));
            if (address.user != null && address.password != null) resp.ask("AUTH", address.user, address.password);
            else if (address.password != null) resp.ask("AUTH", address.password);
            if (!address.path.isEmpty()) resp.ask("SELECT", address.path);
            return new Session(resp, resp.ask("SCRIPT", "LOAD", SCRIPT));
        } catch (IOException error) {
            if (resp != null) resp.close();
            throw new ConnectionLost(reason(error));
        } catch (RedisProtocol.Refusal refusal) {
            resp.close();
            throw judged(refusal);
        }
    }

    private static String reason(IOException error) {
        return error.getMessage() == null ? error.getClass().getSimpleName() : error.getMessage();
    }

    /** Returns for a temporary error; throws a permanent one. */
    private ConnectionLost judged(RedisProtocol.Refusal refusal) {
        if (PASSING.stream().anyMatch(refusal::is)) return new ConnectionLost(refusal.getMessage());
        String problem = name() + " refuses: " + refusal.getMessage().replaceFirst("\\.$", "") + ".";
        if (refusal.is(WRONG_TYPE)) throw new RowRefused(problem, "remove the key, or choose another template.");
        boolean login = LOGIN.stream().anyMatch(refusal::is) || refusal.getMessage().contains("AUTH");
        throw new DatabaseException(
                login ? "DATABASE_LOGIN" : "DATABASE_REFUSED",
                problem,
                login
                        ? "user and password come from the file named in credentials=, else from REDIS_USERNAME and"
                                + " REDIS_PASSWORD."
                        : "check the version, the memory and the permissions of the server.");
    }

    /** A connection with the loaded script. */
    private final class Session implements Link {
        private final RedisProtocol resp;
        private final String script;

        Session(RedisProtocol resp, String script) {
            this.resp = resp;
            this.script = script;
        }

        @Override
        public void prepare() {
            // A hash needs nothing but a connection and the script.
        }

        @Override
        public void write(List<Upsert> rows) throws ConnectionLost {
            try {
                RedisProtocol.Refusal refusal = pipelined(rows);
                if (refusal != null && refusal.is("NOSCRIPT")) {
                    resp.ask("SCRIPT", "LOAD", SCRIPT);
                    refusal = pipelined(rows);
                }
                if (refusal != null) throw refusal;
            } catch (IOException error) {
                throw new ConnectionLost(reason(error));
            } catch (RedisProtocol.Refusal refusal) {
                throw judged(refusal);
            }
        }

        /** Sends all rows, then reads all replies; returns the first error. */
        private RedisProtocol.Refusal pipelined(List<Upsert> rows) throws IOException {
            for (Upsert row : rows) {
                send(row);
            }
            resp.flush();
            RedisProtocol.Refusal first = null;
            for (int i = 0; i < rows.size(); i++) {
                try {
                    resp.answer();
                } catch (RedisProtocol.Refusal refusal) {
                    if (first == null) first = refusal;
                }
            }
            return first;
        }

        private void send(Upsert row) throws IOException {
            List<Object> values = row.values();
            int named = (int) values.stream().filter(value -> value != null).count();
            resp.begin(9 + values.size() + named);
            resp.word("EVALSHA");
            resp.word(script);
            resp.word("1");
            resp.word(key.of(row.key()));
            resp.word(row.version().source());
            resp.word(String.valueOf(row.version().offset()));
            resp.word(String.valueOf(row.version().ordinal()));
            resp.word(String.valueOf(row.version().time()));
            resp.word(String.valueOf(named));
            for (int i = 0; i < values.size(); i++) {
                if (values.get(i) == null) continue;
                resp.word(columns.get(i));
                if (values.get(i) instanceof byte[] bytes) resp.word(bytes);
                else resp.word((String) values.get(i));
            }
            for (int i = 0; i < values.size(); i++) {
                if (values.get(i) == null) resp.word(columns.get(i));
            }
        }

        @Override
        public void close() {
            resp.close();
        }
    }
}
