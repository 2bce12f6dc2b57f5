import os
import resource

from slurm import environment


def test_compilers_keep_their_caches_on_the_node(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", "of the profile")
    for name in ("TORCHINDUCTOR_CACHE_DIR", "VLLM_CACHE_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(environment.tempfile, "tempdir", str(tmp_path))
    with environment.prepared():
        (scratch,) = tmp_path.iterdir()
        assert os.environ["TORCHINDUCTOR_CACHE_DIR"].startswith(f"{scratch}/")
        assert os.environ["VLLM_CACHE_ROOT"].startswith(f"{scratch}/")
        assert os.environ["TRITON_CACHE_DIR"] == "of the profile"
    assert os.environ["TRITON_CACHE_DIR"] == "of the profile"
    assert "TORCHINDUCTOR_CACHE_DIR" not in os.environ
    assert list(tmp_path.iterdir()) == []


def test_as_many_files_as_the_node_allows_can_be_open():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        with environment.prepared():
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
