"""Every law on every record it applies to: one test each."""

import pytest

import tests.laws.first_order
import tests.laws.higher_order
import tests.laws.values  # noqa: F401 - each adds its laws
from tests.laws.examples import records
from tests.laws.registry import LAWS

RECORDS = records()
CASES = [
    pytest.param(name, record, id=f"{name}-{record.name}")
    for name, (_, applies) in LAWS.items()
    for record in RECORDS.values()
    if applies(record)
]


@pytest.mark.parametrize(("name", "record"), CASES)
def test_law(name, record):
    LAWS[name][0](record)
