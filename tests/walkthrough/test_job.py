"""Work in another process: lines as they come, the result, and what happens when it fails or is no longer wanted."""

import json

import pytest

from chainrule.walkthrough.job import Job
from chainrule.walkthrough.moons import OURS, Training, problem
from chainrule.walkthrough.training import train_tensors


def test_scalar_training_arrives_with_every_bit():
    with Job("chainrule.walkthrough.scalar_training", 7, 2, 5) as job:
        training = Training(**json.loads(job.result()))
    assert [line.strip() for line in job.lines[:-1]] == ["0", "1", "2"]
    assert len(training.losses) == len(training.accuracies) == 3
    tensor = train_tensors(problem(7, OURS), 2, 5)
    assert training.losses == pytest.approx(tensor.losses, rel=1e-12)
    assert training.scores == pytest.approx(tensor.scores, rel=1e-12)


def test_a_failure_says_what_the_process_said():
    with (
        Job("chainrule.walkthrough.scalar_training", "nonsense") as job,
        pytest.raises(RuntimeError, match="invalid literal"),
    ):
        job.result()


def test_leaving_the_block_ends_the_process():
    with Job("chainrule.walkthrough.scalar_training", 0, 100_000, 5) as job:
        job.wait(0.05)
        assert job.is_running
    assert not job.is_running
