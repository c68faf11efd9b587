"""The names that panels know: quantities, and the context that is recorded beside them."""

EPOCH = "epoch"  # as users log it: pit.log(epoch=3)
CONTEXT = ("learning_rate", "batch_size", "tracking_seconds", "epoch_count")
QUANTITIES = (
    *("Loss", "Time", "Alpha", "Distance", "UpdateSize", "GradNorm", "NormTest", "InnerTest", "OrthoTest"),
    *("GradHist1d", "GradHist2d", "TICDiag", "TICTrace", "HessTrace", "HessMaxEV"),
    *("Parameters", "CABS", "EarlyStopping", "MeanGSNR"),
)
OURS = frozenset((*CONTEXT, *QUANTITIES))
