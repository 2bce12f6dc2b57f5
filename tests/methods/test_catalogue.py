from refuses import refuses

from common.methods import catalogue


def test_the_command_shows_one_method_and_lists_them_all(capsys):
    catalogue.main(["f_grpo"])
    shown = capsys.readouterr().out
    assert "gamma: 0.5" in shown
    assert "g      = (1 - mu_hat)^gamma" in shown
    catalogue.main(["method=f_grpo"])
    assert capsys.readouterr().out == shown
    with refuses("method", "fgrpo"):
        catalogue.main(["fgrpo"])
    catalogue.main([])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == catalogue.names()
    assert max(map(len, lines)) <= 100
