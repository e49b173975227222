"""A process in which nothing is compiled."""

import chainrule as cr


def test_functions_run_as_they_are(monkeypatch):
    monkeypatch.setenv("CHAINRULE_NO_JIT", "1")
    seen = []

    @cr.jit
    def double(x):
        seen.append(x)  # refused by a trace
        return 2 * x

    assert (double(1.0), double(2.0)) == (2.0, 4.0)
    assert seen == [1.0, 2.0]
    assert double.stats()["compilations"] == 0
    assert "CHAINRULE_NO_JIT is set" in double.stats()["reasons"][0]
