"""Method files are merged with their defaults as Hydra composes them."""

from hydra import compose, initialize_config_dir

from common.methods import files


def test_a_method_file_is_read_as_hydra_reads_it():
    with initialize_config_dir(str(files.FOLDER.parent), version_base="1.3"):
        for name in files.names():
            assert files.compose(name) == compose(f"method/{name}").method, name
