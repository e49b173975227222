"""A real run killed five times at random moments, and resumed, ends as one that was left alone; `make soak` does it 50 times."""

import pytest

from tests.training.soak import soak


@pytest.mark.slow
def test_a_run_that_is_killed_and_resumed_ends_bit_for_bit_the_same(tmp_path):
    done = soak(tmp_path, kills=5, seed=11)
    assert done["kills"] == 5
    assert done["runs"] >= 1
    assert done["resumed"] >= 1
