"""Measure how similar hidden states of right and of wrong responses are (FADE Sec. 15.1, 15.2).

python -m papers.fade.hidden_states checkpoints=[FOLDER,...] "of=['experiment=NAME']" [key=value]
"""

from common.cli import main
from papers.fade.hidden_states.tables import States, run

if __name__ == "__main__":
    main(lambda config: print(run(config, progress=True)), States, "fade", "hidden_states")
