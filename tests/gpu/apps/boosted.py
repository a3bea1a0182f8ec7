# SPDX-License-Identifier: MIT
"""Trains boosted trees with XGBoost from features in host memory, and predicts them all."""

import json

import app


def on_gpu(xgboost, numpy, settings):
    """Whether XGBoost trains on the GPU; it takes the CPU where none answers."""
    few = numpy.zeros((16, 2), dtype=numpy.float32)
    booster = xgboost.train(settings, xgboost.DMatrix(few, few[:, 0]), num_boost_round=1)
    learner = json.loads(booster.save_config())["learner"]
    return learner["generic_param"]["device"].startswith("cuda")


def main():
    chosen = app.options(__doc__, rows=4_000_000, features=64, rounds=8, steps=4)
    xgboost, numpy = app.packages("xgboost", "numpy")
    settings = {"device": chosen.device, "max_depth": 6, "max_bin": 64, "seed": 0, "verbosity": 0}
    if chosen.device == "cuda" and not on_gpu(xgboost, numpy, settings):
        app.skip("no GPU answers")
    random = numpy.random.default_rng(0)
    features = random.standard_normal((chosen.rows, chosen.features), dtype=numpy.float32)
    labels = features[:, 0] * features[:, 1] + features[:, -1]

    def train(_):
        matrix = xgboost.QuantileDMatrix(features, labels, max_bin=settings["max_bin"])
        booster = xgboost.train(settings, matrix, num_boost_round=chosen.rounds)
        return booster.predict(matrix)

    # Both calls have waited for the GPU when they return.
    seconds, predicted = app.timed(chosen.steps, lambda: None, train)
    app.say(app.digest(predicted), seconds)


if __name__ == "__main__":
    main()
