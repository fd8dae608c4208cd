"""Train the judge: a small model that reads a prompt with a memory, and says whether the memory helps.

`python -m training.judge` makes the weights that the daemon ships, from the worlds in this folder. README.md
is the model's card.
"""
