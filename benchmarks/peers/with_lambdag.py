"""LambdaG: a likelihood ratio of grammar models, calibrated on the training problems."""

from typing import Any

from answering import answer


def verify(known: list[dict[str, Any]], questions: list[dict[str, Any]]) -> list[Any]:
    import numpy as np
    from lambdag import LambdaGMethod

    def problems(listed, part):
        return [
            ("\n".join(one["known"]), f"{part}{n}k", one["unknown"], f"{part}{n}u")
            for n, one in enumerate(listed)
        ]

    reference = {f"train{n}k": one["known"] for n, one in enumerate(known)}
    method = LambdaGMethod(
        basis="tokens", order=10, smoothing="kneser_ney", lowercasing=True, sentenize=True,
        num_references=30, calibration="logistic_regression", random_seed=0,
    )  # fmt: skip
    method.fit(problems(known, "train"), reference, [int(one["same"]) for one in known])
    found = method.predict_proba(problems(questions, "test"), reference)[:, 1]
    return np.log10(found / (1 - found)).tolist()


if __name__ == "__main__":
    answer({"verification": verify})
