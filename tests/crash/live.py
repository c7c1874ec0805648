"""A kernel at work, for as long as it is let: turns of every kind, several at a time, some answered, some left waiting.

python live.py lab|record FOLDER SEED [MOMENT NTH]
"""

import random
import sys
import threading
from pathlib import Path

from shop import Death, answer, opened

from agentflex_nb import AgentRunner

THREADS, TURNS = 3, 6
KINDS = (
    "charger", "refunder", "shipper", "twofold", "patient", "guarded", "talker", "asker", "shaken", "sender",
)  # fmt: skip
ASKING = ("refunder", "guarded", "shipper", "asker", "sender")


def work(runner: AgentRunner, name: str) -> None:
    chance = random.Random(name)
    for number in range(TURNS):
        kind = KINDS[(number + chance.randrange(len(KINDS))) % len(KINDS)]
        conversation = None if kind in ASKING else name
        turn = runner.run(kind, "please", conversation_id=conversation)
        while turn.questions and chance.random() < 0.8:
            answer(turn, turn.questions[0])


def main(kind: str, folder: str, seed: str, moment: str = "", nth: str = "1") -> None:
    print("opening", flush=True)
    with opened(kind, Path(folder), Death(moment, int(nth))) as runner:
        print("working", flush=True)
        threads = [threading.Thread(target=work, args=(runner, f"{seed}-{number}")) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
