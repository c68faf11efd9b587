"""A small GPT on the characters of War and Peace."""

from cockpit.problems._base import Problem
from cockpit.problems._criteria import sequence_accuracies, sequence_cross_entropy
from cockpit.problems.data.text import war_and_peace_windows
from cockpit.problems.nets.gpt import gpt

tolstoi_gpt = Problem(
    name="tolstoi_gpt",
    summary="GPT with four layers on windows of 128 characters of War and Peace",
    model=gpt,
    data=war_and_peace_windows,
    losses=sequence_cross_entropy,
    accuracies=sequence_accuracies,
    batch_size=64,
    epochs=20,
)
