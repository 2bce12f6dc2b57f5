"""What F-GRPO's theory command writes: tables and figures hold their formulas."""

import numpy as np
import pandas as pd
import pytest

from papers.f_grpo.theory import __main__, tables

pytestmark = pytest.mark.sweep


def softmax(z):
    return np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True)


# --- Files


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    __main__.run(folder)
    return folder / "f_grpo"


def test_tail_miss_columns_equal_the_printed_formula(written):
    table = pd.read_csv(written / "theory" / "tail_miss.csv")
    assert list(table) == ["mu", "tau", "N", "pr_active", "pr_tail_miss"]
    assert set(table.mu) == {0.05, 0.1, 0.2, 0.3, 0.5, 0.64, 0.7, 0.8, 0.9, 0.95}
    assert sorted(set(table.N))[:8] == [1, 2, 3, 4, 6, 8, 12, 16]
    assert table.N.max() == 2**17
    assert 6.3e-5 in set(table.tau)
    frames = [table] + [
        pd.read_csv(written / "figures" / f"{f}.csv") for f in ("fig1a", "fig2", "fig5")
    ]
    for frame in frames:
        missed = (
            (1 - frame.tau) ** frame.N
            - (frame.mu - frame.tau) ** frame.N
            - (1 - frame.mu) ** frame.N
        )
        np.testing.assert_allclose(frame.pr_tail_miss, missed, rtol=1e-8, atol=1e-14)
        if "pr_active" in frame:
            active = 1 - frame.mu**frame.N - (1 - frame.mu) ** frame.N
            np.testing.assert_allclose(frame.pr_active, active, rtol=1e-8, atol=1e-14)


def test_one_step_rows_equal_a_plain_softmax_step(written):
    table = pd.read_csv(written / "theory" / "one_step.csv.gz")
    assert list(table)[:6] == ["seed", "N", "eta", "R_c", "R_w", "S_R"]
    assert set(zip(table.R_c, table.R_w, strict=True)) == {(1, 0), (1, -1)}
    p = tables.policies(200)
    for N, rows in table[table.eta == 1.0].groupby("N"):
        masks = tables.sampled_mask(p, N)
        for row in rows.itertuples():
            policy, drawn = p[row.seed], masks[row.seed]
            R = np.where(np.arange(64) < 16, row.R_c, row.R_w) * drawn
            S_R = R @ policy
            after = softmax(np.log(policy) + policy * (R - S_R) / N)
            change = after[:16] - policy[:16]
            assert pytest.approx(S_R, rel=1e-8, abs=1e-14) == row.S_R
            assert row.delta_q_pos_exact == pytest.approx(change.sum(), rel=1e-8, abs=1e-14)
            unsampled = change[~drawn[:16]].sum()
            assert row.delta_q_u_pos_exact == pytest.approx(unsampled, rel=1e-8, abs=1e-14)
