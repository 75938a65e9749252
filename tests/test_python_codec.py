"""The codec compared with Spark's: arguments and return values of every type."""

import datetime as dt
import decimal

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

import eagre as eg
from eagre.python.eagre_worker.codec import codec, row_codec
from eagre.python.eagre_worker.layout import NoCodecError, WrongTypeError

FIRST = dt.datetime(1902, 1, 1)  # noqa: DTZ001  (Spark's timestamps are naive in Python)
LAST = dt.datetime(2200, 1, 1)  # noqa: DTZ001


def integers(bits):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def decimals(precision, scale):
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda n: decimal.Decimal(n).scaleb(-scale, WIDE))


WIDE = decimal.Context(prec=60)
texts = st.text(st.characters(codec="utf-8"), max_size=12)
moments = st.datetimes(FIRST, LAST, timezones=st.none())

ATOMS = [
    (T.BooleanType(), st.booleans()),
    (T.ByteType(), integers(8)),
    (T.ShortType(), integers(16)),
    (T.IntegerType(), integers(32)),
    (T.LongType(), integers(64)),
    (T.FloatType(), st.floats(width=32, allow_nan=False)),
    (T.DoubleType(), st.floats(allow_nan=False)),
    (T.StringType(), texts),
    (T.BinaryType(), st.binary(max_size=12)),
    (T.DateType(), st.dates(dt.date(1, 1, 2), dt.date(9999, 12, 31))),
    (T.TimestampType(), moments),
    (T.TimestampNTZType(), moments),
    (T.DayTimeIntervalType(), st.timedeltas(dt.timedelta(-9999), dt.timedelta(9999))),
    (T.DecimalType(10, 2), decimals(10, 2)),
    (T.DecimalType(18, 0), decimals(18, 0)),
    (T.DecimalType(38, 18), decimals(38, 18)),
    (T.TimeType(), st.times()),
    (T.NullType(), st.none()),
]
KEYS = [pair for pair in ATOMS if isinstance(pair[0], (T.IntegerType, T.StringType, T.DateType))]


def nullable(pair):
    return pair[0], st.none() | pair[1]


def arrays(pair):
    return T.ArrayType(pair[0]), st.lists(st.none() | pair[1], max_size=4)


def structs(pairs):
    kind = T.StructType([T.StructField(f"f{i}", k) for i, (k, _) in enumerate(pairs)])
    names = kind.names
    values = st.tuples(*(st.none() | v for _, v in pairs))
    return kind, values.map(lambda v: Row(**dict(zip(names, v, strict=True))))


def maps(key, value):
    return T.MapType(key[0], value[0]), st.dictionaries(key[1], st.none() | value[1], max_size=3)


atoms = st.sampled_from(ATOMS)
kinds = st.recursive(
    atoms,
    lambda inner: st.one_of(
        inner.map(arrays),
        st.lists(inner, min_size=1, max_size=3).map(structs),
        st.tuples(st.sampled_from(KEYS), inner).map(lambda pair: maps(*pair)),
    ),
    max_leaves=6,
)
tables = st.lists(kinds, min_size=1, max_size=11).flatmap(
    lambda pairs: st.tuples(
        st.just([kind for kind, _ in pairs]),
        st.lists(st.tuples(*(st.none() | v for _, v in pairs)), min_size=1, max_size=5),
    )
)


@settings(max_examples=100, deadline=None, print_blob=True)
@given(tables)
def test_rows_survive_a_round_trip(table):
    kinds_, rows = table
    kind = T.StructType([T.StructField(f"c{i}", k) for i, k in enumerate(kinds_)])
    decode, encode = row_codec(kind, rows=False)
    data = b"".join(encode(row) for row in rows)
    decoded, pos = [], 0
    for _ in rows:
        row, pos = decode(data, pos)
        decoded.append(row)
    assert decoded == rows
    assert pos == len(data)


@pytest.mark.e2e
@settings(
    max_examples=10,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(tables)
def test_arguments_and_results_equal_those_of_sparks_udfs(eagre_spark, table):
    kinds_, rows = table
    schema = T.StructType([T.StructField(f"c{i}", k) for i, k in enumerate(kinds_)])
    note(schema.simpleString())
    df = eagre_spark.createDataFrame(rows, schema)
    whole_row = F.struct("*")
    seen = df.select(
        F.udf(repr, "string")(whole_row).alias("spark"),
        eg.udf(repr, "string", on_error="fail")(whole_row).alias("bridge"),
        eg.udf(lambda row: row, schema, on_error="fail")(whole_row).alias("back"),
        whole_row.alias("given"),
    ).collect()
    for row in seen:
        assert row.bridge == row.spark
        assert row.back == row.given


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_timestamps_are_independent_of_the_time_zone(eagre_spark, zone, monkeypatch):
    df = eagre_spark.sql("SELECT TIMESTAMP '2026-03-08 02:30:00Z' AS at")
    aware = dt.timezone(dt.timedelta(hours=5, minutes=30))
    moved = eg.udf(lambda at: at.astimezone(aware), "timestamp", on_error="fail")
    row = df.select(moved("at").alias("moved"), "at").first()
    assert row.moved == row.at
    assert eagre_spark.conf.get("spark.sql.session.timeZone")


def test_variants_are_supported(eagre_spark):
    df = eagre_spark.sql("""SELECT parse_json('{"a": [1, 2]}') AS v""")
    summed = eg.udf(lambda v: sum(v.toPython()["a"]), "int", on_error="fail")
    same = eg.udf(lambda v: v, "variant", on_error="fail")
    row = df.select(summed("v").alias("n"), F.to_json(same("v")).alias("text")).first()
    assert (row.n, row.text) == (3, '{"a":[1,2]}')


def test_numpy_values_are_accepted(eagre_spark):
    np = pytest.importorskip("numpy")
    row = (
        eagre_spark.range(1)
        .select(
            eg.udf(lambda i: np.int64(i + 7), "long", on_error="fail")("id").alias("n"),
            eg.udf(lambda _: np.float32(0.5), "double", on_error="fail")("id").alias("x"),
            eg.udf(lambda _: np.array([1, 2]), "array<int>", on_error="fail")("id").alias("l"),
            eg.udf(lambda _: np.bool_(1), "boolean", on_error="fail")("id").alias("b"),
        )
        .first()
    )
    assert (row.n, row.x, row.l, row.b) == (7, 0.5, [1, 2], True)


def test_decimals_are_rounded_to_their_scale():
    decode, encode = row_codec(T.StructType().add("d", T.DecimalType(6, 2)), rows=False)
    rounded, _ = decode(encode((decimal.Decimal("1.005"),)), 0)
    assert rounded == (decimal.Decimal("1.01"),)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (T.IntegerType(), "7"),
        (T.IntegerType(), 2**31),
        (T.IntegerType(), 7.5),
        (T.StringType(), 7),
        (T.BinaryType(), "text"),
        (T.BooleanType(), "yes"),
        (T.DateType(), "2026-01-01"),
        (T.DecimalType(4, 2), decimal.Decimal("123.4")),
        (T.DecimalType(4, 2), 1.5),
        (T.ArrayType(T.IntegerType()), "abc"),
        (T.ArrayType(T.IntegerType()), ["a"]),
        (T.MapType(T.StringType(), T.IntegerType()), {None: 1}),
        (T.StructType().add("a", "long"), (1, 2)),
        (T.VariantType(), {}),
    ],
)
def test_values_out_of_range_are_refused_with_their_type(kind, value):
    _, encode = row_codec(T.StructType().add("field", kind))
    with pytest.raises(WrongTypeError, match="field must be"):
        encode((value,))


@pytest.mark.parametrize("kind", [T.YearMonthIntervalType(), T.CalendarIntervalType()])
def test_unsupported_types_are_refused(kind):
    with pytest.raises(NoCodecError, match="no equivalent"):
        codec(kind)


def test_rows_wider_than_sparks_code_generation_limit(eagre_spark):
    wide = eagre_spark.range(1).select(*(F.lit(i).alias(f"c{i}") for i in range(130)))
    total = eg.udf(sum, "int", on_error="fail")(F.array("*"))
    row = wide.select("*", total.alias("total")).first()
    assert row.total == sum(range(130))
    assert list(row)[:130] == list(range(130))
