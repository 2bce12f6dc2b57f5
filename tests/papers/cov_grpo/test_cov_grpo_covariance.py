import math
import shlex

import pandas as pd
import pytest
import torch
from refuses import refuses
from tiny import ROOT, TINY

from common.backends.local import Loop, train
from common.config.compose import compose
from common.config.strict import strict
from common.experiment import load
from common.losses import contributions
from common.losses.contributions import PERCENTILES, SHARES, cumulative_contribution
from common.losses.covariance import covariance, gaussian_kernel
from common.verifiers.guard import judges
from papers.cov_grpo.compare import SEC22
from papers.cov_grpo.covariance import tables as tables_of
from papers.cov_grpo.covariance.config import Covariance
from papers.cov_grpo.covariance.formulas import (
    agreement,
    by_group,
    weight_summary,
)
from papers.cov_grpo.covariance.tables import (
    TABLES,
    measure,
    rollout,
    run,
)

C = torch.tensor([4.0, -3.0, 2.0, -1.0, 0.0])


def random_batch(prompts: int, group: int, tokens: int, seed: int):
    """log-probs, advantages and a ragged mask; one group's advantages are all 0."""
    g = torch.Generator().manual_seed(seed)
    rows = prompts * group
    log_prob = -torch.rand(rows, tokens, generator=g)
    advantages = torch.randn(prompts, group, generator=g)
    advantages[0] = 0
    lengths = torch.randint(1, tokens + 1, (rows, 1), generator=g)
    mask = (torch.arange(tokens) < lengths).float()
    return log_prob, advantages.view(-1, 1), mask


# ---- Fig. 3, Table 1


def test_cumulative_contribution_by_hand():
    # |c| sorted: 4 3 2 1 0, sum 10
    shares = cumulative_contribution(C, [0.0001, 0.2, 0.4, 0.6, 1.0])
    assert shares == pytest.approx([0.4, 0.4, 0.7, 0.9, 1.0])


# ---- weights


def test_by_group_is_the_kernel_on_each_group_alone():
    log_prob, A, mask = random_batch(3, 4, 6, seed=1)
    w = by_group(log_prob, log_prob, A, mask, mean="token", group_size=4)
    for start in range(0, 12, 4):
        group = slice(start, start + 4)
        alone = gaussian_kernel(
            log_prob[group], log_prob[group], A[group], mask[group], mean="token"
        )
        torch.testing.assert_close(w[group], alone)
        assert w[group].sum().item() == pytest.approx(mask[group].sum().item(), rel=1e-5)
    whole = gaussian_kernel(log_prob, log_prob, A, mask, mean="token")
    assert not torch.allclose(w, whole)
    one = by_group(log_prob, log_prob, A, mask, mean="token", group_size=12)
    torch.testing.assert_close(one, whole)
    with refuses("group_size", 5):
        by_group(log_prob, log_prob, A, mask, mean="token", group_size=5)


def test_groups_without_a_gradient_take_weight_from_the_others_in_a_mini_batch_only():
    log_prob, A, mask = random_batch(4, 6, 8, seed=2)
    given = (log_prob, log_prob, A, mask)
    kernel = gaussian_kernel(*given, mean="token")
    pooled = weight_summary(kernel, A, mask)
    alone = weight_summary(by_group(*given, mean="token", group_size=6), A, mask)
    assert kernel[mask > 0].mean().item() == pytest.approx(1, rel=1e-5)
    assert pooled["mean_active"] < 0.98
    assert alone["mean_active"] == pytest.approx(1, rel=1e-5)


def test_weight_summary_by_hand():
    mask = torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    weights = torch.tensor([[2.0, 0.5, 9.0], [1.0, 9.0, 9.0]])
    summary = weight_summary(weights, torch.tensor([[1.0], [0.0]]), mask)
    assert summary == pytest.approx({"padded": 2, "mean_active": 1.25, "damped": 50})
    nothing = weight_summary(weights, torch.zeros(2, 1), mask)
    assert nothing["mean_active"] is nothing["damped"] is None


# ---- entropy drift


def test_agreement_by_hand():
    moved = agreement(pd.Series([1.0, 2.0, -1.0]), pd.Series([2.0, 4.0, 2.0]))
    assert moved["same_sign"] == pytest.approx(200 / 3)
    assert moved["slope"] == pytest.approx((2 + 8 - 2) / 6)
    # deviations (1/3, 4/3, -5/3) and (-2/3, 4/3, -2/3)
    assert moved["correlation"] == pytest.approx((24 / 9) / math.sqrt(42 / 9 * 24 / 9))
    still = agreement(pd.Series([0.0, 0.0]), pd.Series([1.0, 2.0]))
    assert still["correlation"] is still["slope"] is None


# ---- the command


def settings(results, seeds: list[int], **changes) -> Covariance:
    """Three steps of the tiny model."""
    given = dict(row="grpo", steps=3, eta=0.01, shares=[0.01, 0.2, 1.0])
    given |= dict(overrides=[o for o in TINY if "optim.steps" not in o])
    return Covariance(**given | dict(seeds=seeds, results_dir=str(results)) | changes)


def test_the_readmes_command_at_the_papers_size_composes_the_papers_training():
    text = (ROOT / "papers" / "cov_grpo" / "README.md").read_text().replace("\\\n", "")
    line = next(line for line in text.splitlines() if "cov_grpo.covariance row=" in line)
    words = shlex.split(line, comments=True)[3:]
    config = strict(Covariance, compose("cov_grpo", words, "covariance"))
    x = tables_of.experiment(config, 1)
    assert (x.backend, x.optim.steps, x.optim.lr) == ("local", 50, 1e-6)  # Sec. 2.2, Table 5
    assert (x.sampling.max_tokens, x.sampling.temperature, x.sampling.reported) == (4096, 0.7, 1)
    assert (x.model.name, x.model.chat) == (SEC22["model"], "r1_distill")
    kinds = [part["_target_"].split(".")[-2] for part in x.data.verifier["parts"]]
    assert kinds == ["math", "format"]  # App. C


def test_the_command_measures_and_does_not_disturb_the_training(results, tmp_path):
    config = settings(results, [2])  # its first step has groups with different rewards
    tiny = config.overrides
    folder = run(config)
    tables = {name: pd.read_csv(folder / f"{name}.csv") for name in TABLES}
    lengths = {name: len(tables[name]) for name in TABLES}
    assert lengths == {"cumulative": 12, "percentiles": 48, "weights": 9, "steps": 3}
    assert all((table.columns[0], set(table["seed"])) == ("seed", {2}) for table in tables.values())
    whole = tables["cumulative"].query("share == 1")
    assert whole["contribution"].tolist() == pytest.approx([1.0] * 4)
    assert (tables["weights"]["padded"] >= 1).all()
    steps = tables["steps"]
    product = -steps["eta"] * steps["covariance"]
    assert steps["predicted"].tolist() == pytest.approx(product.tolist(), rel=1e-6)
    assert (steps["measured_plain"] != steps["measured_adamw"]).any()

    flags = ["experiment=grpo", *tiny, "optim.steps=3", f"results_dir={results}", "seed=2"]
    x = load([*flags, "covariances=true"], "cov_grpo")
    assert x.run_id == load(flags, "cov_grpo").run_id
    log = pd.read_json(train(x, progress=False) / "metrics.jsonl", lines=True)
    with judges(x.data.verifier, x.verification) as verify:
        batch, advantages, _ = rollout(Loop(x, tmp_path, verify), 1)
    c = covariance(batch.log_probs, advantages.reshape(-1, 1), batch.mask, mean="token")
    c = c[batch.mask > 0]
    held = cumulative_contribution(c, list(SHARES))
    assert log.filter(like="covariance_top_").loc[0].tolist() == pytest.approx(held, rel=1e-5)
    for column in ("reward", "lr", "entropy"):
        assert steps[column].tolist() == pytest.approx(log[column].tolist(), rel=1e-5)


def test_a_half_done_set_goes_on_with_the_seeds_that_are_left(results, monkeypatch):
    measured = []

    def stopping(x, *rest):
        if x.seed == 2 and 2 not in measured:
            measured.append(2)
            raise KeyboardInterrupt
        measured.append(x.seed)
        return measure(x, *rest)

    monkeypatch.setattr(tables_of, "measure", stopping)
    with pytest.raises(KeyboardInterrupt):
        run(settings(results, [1, 2, 6]))
    assert not (results / "cov_grpo" / "covariance").exists()  # no table of some of the seeds
    folder = run(settings(results, [1, 2, 6]))
    assert measured == [1, 2, 2, 6]
    assert len(list(folder.parent.glob("covariance-*/DONE"))) == 3
    for name in TABLES:
        seeds = pd.read_csv(folder / f"{name}.csv", dtype=str).groupby("seed", sort=False)
        texts = [part.drop(columns="seed").to_csv(index=False) for _, part in seeds]
        assert list(seeds.groups) == ["1", "2", "6"]
        stored = {path.read_text() for path in folder.parent.glob(f"covariance-*/{name}.csv")}
        assert set(texts) == stored  # a seed's rows are its run's, to the letter
        assert len(stored) == 3
    run(settings(results, [6, 1]))
    assert measured == [1, 2, 2, 6]
    assert pd.read_csv(folder / "steps.csv")["seed"].tolist() == [6, 6, 6, 1, 1, 1]


def test_a_training_logs_table_1_in_both_readings(monkeypatch):
    c = torch.cat([torch.arange(1.0, 6.0), -torch.arange(1.0, 11.0)])
    monkeypatch.setattr(contributions, "covariance", lambda *_, mean: c)
    row = contributions.logged(c, c, torch.ones_like(c))
    logged = {name: value for name, value in row.items() if "_top_" not in name}
    assert len(logged) == 2 * 2 * len(PERCENTILES)
    assert logged["covariance_positive_at_0.0001"] == 5.0  # the largest token at least
    assert logged["covariance_negative_at_0.2"] == -9.0  # the two largest of ten
    assert logged["covariance_negative_mean_0.2"] == -9.5
    assert logged["covariance_positive_at_1"] == 1.0
