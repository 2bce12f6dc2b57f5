"""Results that were made elsewhere.

rlvr import files='GLOB' eval=NAME [label=MODEL] [score=NAME] [key=value ...]
    samples that other programs stored, judged by our verifier: common/evaluation/import_samples
rlvr import paper=NAME files='GLOB' source='who, when, which code' [table=table1]
    [model=Qwen2.5-7B] [method=GRPO] [benchmark=MATH500] [seed=1] [step=1530] [scope=cluster]
    [results_dir=results]
    counts, verdicts or numbers, as runs that the comparison with a paper finds: docs/importing.md
"""


def main(words: list[str]) -> None:
    if any(word.startswith("paper=") for word in words):
        from common.comparison.import_runs import main as counts

        counts(words)
    else:
        from common.evaluation.import_samples import import_samples

        import_samples(words)
