"""The pool of verifiers in a Ray actor, where graders are known to score everything 0 silently."""

import subprocess
import sys

import ray

from common.config.files import ROOT


@ray.remote
class Judge:
    def __init__(self):
        sys.path.insert(0, str(ROOT))
        from common.verifiers.pool import Pool

        node = {"_target_": "common.verifiers.countdown.verify"}
        self.pool = Pool(node, workers=2, deadline=5, memory_gb=2)

    def map(self, pairs):
        outcomes = [verdict.outcome for verdict in self.pool.map(pairs)]
        return outcomes, self.pool._mother.pid


def test_an_actor_judges_and_takes_its_workers_with_it():
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        judge = Judge.remote()
        pairs = [("\\boxed{1+2+3+4}", "1 2 3 4 = 10"), ("\\boxed{1}", "1 2 3 4 = 10")]
        outcomes, mother = ray.get(judge.map.remote(pairs * 3))
        assert outcomes == ["correct", "wrong"] * 3
        assert subprocess.run(["kill", "-0", str(mother)]).returncode == 0
        ray.kill(judge)
        wait = f"for i in $(seq 100); do kill -0 {mother} || exit 0; sleep 0.1; done; exit 1"
        done = subprocess.run(["bash", "-c", wait], stderr=subprocess.DEVNULL)
        assert done.returncode == 0, "the workers outlive their actor"
    finally:
        ray.shutdown()
