"""The result rows of F-GRPO that come from its simulation and its theory."""

from pathlib import Path

import pandas as pd


def own_rows(root: Path) -> list[pd.DataFrame]:
    return [simulation_rows(root), theory_rows(root)]


def simulation_rows(root: Path) -> pd.DataFrame:
    """Return the categorical simulation as result rows: method "gamma=g" and benchmark "N=n", one
    row for each seed, step and metric. Only the reading score_adam is taken.

    Table "simulation at Q_pos=0.9" holds M_ret at the step where Q_pos first reaches 0.9.
    """
    path = root / "f_grpo" / "simulation" / "trajectory.csv.gz"
    if not path.exists():
        return pd.DataFrame()
    wide = pd.read_csv(path).query("reading == 'score_adam'")
    wide = wide.assign(
        table="simulation",
        model="categorical",
        method="gamma=" + wide["gamma"].map("{:g}".format),
        benchmark="N=" + wide["N"].astype(str),
    )
    key = ["table", "model", "method", "benchmark", "seed", "step"]
    long = wide.melt(key, ["Q_pos", "M_ret", "entropy"], "metric", "value")
    reached = wide[wide["Q_pos"] >= 0.9].sort_values("step").groupby(key[:-1]).head(1)
    reached = reached.assign(
        table="simulation at Q_pos=0.9", metric="M_ret", value=reached["M_ret"]
    )
    return pd.concat([long, reached[[*key, "metric", "value"]]], ignore_index=True)


def theory_rows(root: Path) -> pd.DataFrame:
    """Return the theory as result rows of the table "theory", without a seed.

    pr_tail_miss            Lemma 3.1, by mu, tau and N
    of random groups by N, at eta = 0.01 (Prop. 3.2, method "Eq. 13"):
    error                   largest |Eq. 13 - exact| in percent of the largest exact change
    shrinks                 percent of groups in which Q_u,pos falls while Q_pos rises
    both_negative           percent of those with S_R > 0 in which both terms of Eq. 13 are negative
    of random policies (App. B, method: the expected mass, or S_R and the rewards):
    stderrs_off             largest distance of Eqs. 18 and 19 from drawn groups
    rise_low, rise_high     the least and the largest change from X = k to k + 1
    """
    folder = root / "f_grpo" / "theory"
    if not (folder / "lemma_b1.csv").exists():  # the last one that is written
        return pd.DataFrame()
    names = ("tail_miss.csv", "one_step.csv.gz", "lemma_b1.csv")
    wide, steps, lemma = (pd.read_csv(folder / name) for name in names)
    named = [f"mu={mu:g}, tau={tau:g}" for mu, tau in zip(wide.mu, wide.tau, strict=True)]
    wide = wide.assign(method=named).melt(["method", "N"], ["pr_tail_miss"], "metric")

    shrunk, grown = steps["delta_q_u_pos_exact"], steps["delta_q_pos_exact"]
    off = (steps["delta_q_u_pos_eq13"] - shrunk).abs().groupby(steps["N"]).max()
    positive = steps[steps["S_R"] > 0]
    shares = {
        "error": off / shrunk.abs().groupby(steps["N"]).max(),
        "shrinks": ((shrunk < 0) & (grown > 0)).groupby(steps["N"]).mean(),
        "both_negative": (positive["coupling"] < 0).groupby(positive["N"]).mean(),
    }
    groups = 100 * pd.DataFrame(shares)
    groups = groups.reset_index().melt("N", var_name="metric").assign(method="Eq. 13")

    lemma = lemma.rename(columns={"quantity": "method"})
    rise = lemma.groupby(["method", "seed"])["exact"].diff().groupby(lemma["method"])
    off = lemma.groupby("method")["stderrs_off"].max()
    found = pd.DataFrame({"stderrs_off": off, "rise_low": rise.min(), "rise_high": rise.max()})
    found = found.reset_index().melt("method", var_name="metric").dropna()
    rows = pd.concat([wide, groups, found.assign(N=16)], ignore_index=True)
    rows["benchmark"] = "N=" + rows.pop("N").astype(str)
    return rows.assign(table="theory")
