"""A car that must swing to climb a hill: how far each state is from the goal, under one policy.

The value winds around the valley like the car does (dots: two episodes; circles: the points that
carry the function). Right the values of fresh
episodes beside the rewards collected. Needs Gymnasium: ``pip install "mercer[rl]"``.
"""

import sys

import gymnasium
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from mercer import ValueFunction

DISCOUNT = 0.98
SCALE = np.array([0.5, 0.04])  # of position and velocity


class Scaled(gymnasium.ObservationWrapper):
    """Position and velocity, both of a size of about 1."""

    def observation(self, observation):
        return observation / SCALE


def noisy_policy(seed):
    """Push where the car is moving, most of the time."""
    rng = np.random.default_rng(seed)

    def policy(observation):
        push = np.sign(observation[1]) if rng.uniform() < 0.8 else rng.uniform(-1.0, 1.0)
        return np.array([push], dtype=np.float32)

    return policy


def returns_of(env, n_episodes):
    """States of whole episodes, and the rewards collected from there on."""
    policy, states, returns = noisy_policy(1), [], []
    for seed in range(n_episodes):
        observation, _ = env.reset(seed=1000 + seed)
        rewards, over = [], (False, False)
        while not any(over):
            states.append(observation)
            observation, reward, *over, _ = env.step(policy(observation))
            rewards.append(reward)
        total = 0.0
        returns += [total := r + DISCOUNT * total for r in rewards[::-1]][::-1]
    return np.array(states), np.array(returns)


def main(path="mountain_car_value.png", n_rows=40_000):
    env = Scaled(gymnasium.make("MountainCarContinuous-v0"))
    model = ValueFunction(DISCOUNT, n_passes=10, random_state=0)
    model.fit_env(env, noisy_policy(0), n_rows, seed=0)
    states, returns = returns_of(env, 10)
    position, velocity = np.meshgrid(np.linspace(-1.2, 0.6, 121), np.linspace(-0.07, 0.07, 81))
    grid = np.stack([position, velocity], axis=-1) / SCALE
    values = model.predict(grid.reshape(-1, 2)).reshape(position.shape)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    figure.colorbar(left.contourf(position, velocity, values, 20), ax=left, label="value")
    left.plot(*(states[:300] * SCALE).T, "w.", ms=2)
    left.plot(*(model.dictionary_ * SCALE).T, "o", mfc="none", mec="white", ms=6)
    left.set(xlabel="position", ylabel="velocity", xlim=(-1.2, 0.6), ylim=(-0.07, 0.07))
    right.plot(returns, model.predict(states), ".", alpha=0.3)
    right.axline((0.0, 0.0), slope=1, color="black", lw=1)
    title = f"{model.model_order_} points, R² = {model.score(states, returns):.2f}"
    right.set(xlabel="rewards collected", ylabel="value", title=title)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return model


if __name__ == "__main__":
    main(*sys.argv[1:])
