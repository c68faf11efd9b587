"""Two LSTM layers on the characters of War and Peace."""

from cockpit.problems._base import Problem
from cockpit.problems._criteria import sequence_accuracies, sequence_cross_entropy
from cockpit.problems.data.text import tolstoi
from cockpit.problems.nets.char_lstm import begin, char_lstm

tolstoi_char_rnn = Problem(
    name="tolstoi_char_rnn",
    summary="two LSTM layers on the characters of War and Peace",
    model=char_lstm,
    data=tolstoi,
    losses=sequence_cross_entropy,
    accuracies=sequence_accuracies,
    batch_size=50,
    epochs=200,
    target=0.6045863566200845,
    begin=begin,
    paper="P8",
)
