"""The test kit that ships with Eagre: a real broker, a real Spark, a pipeline test in a few lines.

Installed with Eagre as a pytest plugin; a test asks for a fixture by name:

::

    def test_large_payments_are_risky(run_in_both_modes):
        [row] = run_in_both_modes(score, [{"card": "c1", "amount": 5000.0}])
        assert row["risk"] == 0.9
"""

from eagre.testing.harness import Harness, Record

__all__ = ["Harness", "Record"]
