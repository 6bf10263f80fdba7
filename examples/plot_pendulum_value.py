"""A pendulum that is swung up: what each state is worth under a policy that is not changed.

Left the value of all states and, in white, the points that carry the function: where none
are, nothing was seen. Right the values of fresh episodes beside the rewards then collected.
Needs Gymnasium: ``pip install "mercer[rl]"``.
"""

import sys

import gymnasium
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from mercer import ValueFunction

DISCOUNT = 0.95
AHEAD = 100  # steps that returns look ahead: 0.95**100 is 0.006


class Scaled(gymnasium.ObservationWrapper):
    """Cosine, sine and velocity, all of a size of about 1."""

    def observation(self, observation):
        return observation / np.array([1.0, 1.0, 4.0])


def policy(observation):
    """Pump energy in until the pendulum is up, then hold it there."""
    cosine, sine, velocity = observation * np.array([1.0, 1.0, 4.0])
    if cosine > 0.9:
        return np.clip([-12.0 * sine - 3.0 * velocity], -2.0, 2.0)
    energy = velocity**2 / 6.0 + 5.0 * cosine
    return np.clip([4.0 * np.sign(velocity + 1e-9) * (5.0 - energy)], -2.0, 2.0)


def returns_of(env, n_episodes):
    """States of the first half of each episode, and the rewards collected from there on."""
    weights, states, returns = DISCOUNT ** np.arange(AHEAD), [], []
    for seed in range(n_episodes):
        observation, _ = env.reset(seed=1000 + seed)
        rewards = []
        for _ in range(2 * AHEAD):
            states.append(observation)
            observation, reward, *_ = env.step(policy(observation))
            rewards.append(reward)
        del states[-AHEAD:]
        returns += [weights @ rewards[t : t + AHEAD] for t in range(AHEAD)]
    return np.array(states), np.array(returns)


def main(path="pendulum_value.png", n_rows=40_000):
    env = Scaled(gymnasium.make("Pendulum-v1"))
    model = ValueFunction(DISCOUNT, n_passes=10, random_state=0)
    model.fit_env(env, policy, n_rows, seed=0)
    states, returns = returns_of(env, 20)
    angle, velocity = np.meshgrid(np.linspace(-np.pi, np.pi, 121), np.linspace(-8, 8, 81))
    grid = np.stack([np.cos(angle), np.sin(angle), velocity / 4.0], axis=-1).reshape(-1, 3)
    values = model.predict(grid).reshape(angle.shape)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    figure.colorbar(left.contourf(angle, velocity, values, levels=20), ax=left, label="value")
    cosine, sine, speed = model.dictionary_.T
    left.plot(np.arctan2(sine, cosine), 4.0 * speed, "o", mfc="none", mec="white", ms=4)
    left.set(xlabel="angle (0: upright)", ylabel="velocity", ylim=(-8, 8))
    right.plot(returns, model.predict(states), ".", alpha=0.3)
    right.axline((returns.min(), returns.min()), slope=1, color="black", lw=1)
    title = f"{model.model_order_} points, R² = {model.score(states, returns):.2f}"
    right.set(xlabel="rewards collected", ylabel="value", title=title)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return model


if __name__ == "__main__":
    main(*sys.argv[1:])
