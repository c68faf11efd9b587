"""A study file to begin with."""

EXAMPLE = """\
# What is compared. Run it:  cockpit bench sweep study.toml      Look at it:  cockpit bench report study.toml
name = "mine"                       # of the folder of results; otherwise the file's name
problems = ["quadratic_deep"]       # `cockpit bench list`; groups: small, large; yours: "my_module:my_problem"
optimizers = ["SGD", "Adam"]        # "study": its fifteen, "all"; yours: "my_module:MyOptimizer", beside this file
budgets = ["oneshot", "small"]      # small: 25 settings, medium: 50, large: 75; or a number of settings
schedules = ["constant"]            # of the learning rate; also cosine, cosine_wr, ltr, trapezoidal
search = "random"                   # also "grid"; "study": the draws of the published study
seed = 42                           # of the tuning; a list tunes again with each
seeds = 10                          # of defaults and of winners: 42 ... 51
# tuning_seeds = 1                  # of every setting that is tried
# protocol = "crowded-valley"       # draws, order, matrices and selection as in the published study

# [problem.quadratic_deep]          # options of `cockpit bench run`
# epochs = 100
# order = "fixed"

# [optimizer."my_module:MyOptimizer"]    # where it is searched; what is not named stays at its default
# lr = { log = [1e-4, 1.0] }             # log-uniform
# beta = { log1m = [1e-3, 0.5] }         # 1 - beta log-uniform; also uniform, int, choice = [0.0, 0.9]
# eps = 1e-8                             # a number fixes it
"""
