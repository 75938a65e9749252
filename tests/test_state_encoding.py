"""The encoding of state: with Avro a state variable can gain a field, and one can be widened."""

import sys

import pytest
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import eagre as eg
from test_operators import keyed, source

ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
OUTPUT = "card STRING, n LONG, amount DOUBLE"


class Counting(StatefulProcessor):
    """Counts the rows of a key in a state of one field."""

    def __init__(self, schema):
        self.schema = schema

    def init(self, handle):
        self.state = handle.getValueState("seen", self.schema)

    def handleInputRows(self, key, rows, _timers):  # noqa: N802
        for row in rows:
            n, *more = self.state.get() or (0,)
            amount = (more[0] or 0.0) + row.amount if self.schema != "n INT" else 0.0
            self.state.update((n + 1, amount) if self.schema != "n INT" else (n + 1,))
            yield Row(card=key[0], n=n + 1, amount=amount)

    def close(self):
        pass


def counting(schema):
    @eg.pipeline(source=source("encoded-in"), sink=eg.Kafka("encoded-out"), name="encoded")
    def encoded(df):
        return eg.transform_with_state(df.groupBy("card"), Counting(schema), OUTPUT)

    return encoded


@pytest.fixture
def avro(eagre_spark):
    eagre_spark.conf.set(ENCODING, "avro")
    yield
    eagre_spark.conf.unset(ENCODING)


ROWS = keyed([{"card": "a", "amount": 2}] * 3)


@pytest.mark.e2e
@pytest.mark.parametrize("mode", ["real-time", "micro-batch"])
@pytest.mark.usefixtures("avro")
def test_with_avro_a_state_gains_a_field_and_another_is_widened(run_pipeline, tmp_path, mode):
    folder = tmp_path / "c"
    first = run_pipeline(counting("n INT"), ROWS, mode=mode, checkpoint=folder)
    assert [row["n"] for row in first] == [1, 2, 3]
    second = run_pipeline(counting("n LONG, amount DOUBLE"), ROWS, mode=mode, checkpoint=folder)
    assert [(row["n"], row["amount"]) for row in second] == [(4, 2.0), (5, 4.0), (6, 6.0)]


@pytest.mark.e2e
def test_without_avro_another_schema_is_refused(run_pipeline, tmp_path):
    folder = tmp_path / "c"
    run_pipeline(counting("n INT"), ROWS, mode="micro-batch", checkpoint=folder)
    with pytest.raises(Exception, match="STATE_STORE"):
        run_pipeline(counting("n LONG, amount DOUBLE"), ROWS, mode="micro-batch", checkpoint=folder)


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import it
