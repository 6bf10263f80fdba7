"""
The value of states that nobody has listed: a pendulum swung up
===============================================================

Policy evaluation in a continuous space, by temporal differences on a dictionary that grows where
the pendulum goes: where no points are, nothing was seen. Needs Gymnasium: ``pip install
"mercer[rl]"``.
"""

import gymnasium
import matplotlib.pyplot as plt
import numpy as np

from mercer import ValueFunction

# %%
# Cosine, sine and velocity, all of a size of about 1. The policy pumps energy in until the pendulum
# is up, and then holds it there.

N_ROWS = 20_000
DISCOUNT = 0.95
SCALE = np.array([1.0, 1.0, 4.0])
N_EPISODES = 20


class Scaled(gymnasium.ObservationWrapper):
    def observation(self, observation):
        return observation / SCALE


def policy(observation):
    cosine, sine, velocity = observation * SCALE
    if cosine > 0.9:
        return np.clip([-12.0 * sine - 3.0 * velocity], -2.0, 2.0)
    energy = velocity**2 / 6.0 + 5.0 * cosine
    return np.clip([4.0 * np.sign(velocity + 1e-9) * (5.0 - energy)], -2.0, 2.0)


env = Scaled(gymnasium.make("Pendulum-v1"))
model = ValueFunction(DISCOUNT, n_passes=10, random_state=0).fit_env(env, policy, N_ROWS, seed=0)

# %%
# The truth to compare with: the states of the first half of fresh episodes, and the rewards
# collected over as many steps from there on.

AHEAD = 100  # what comes later hardly counts
weights, states, returns = DISCOUNT ** np.arange(AHEAD), [], []
for seed in range(N_EPISODES):
    observation, _ = env.reset(seed=1000 + seed)
    rewards = []
    for _ in range(2 * AHEAD):
        states.append(observation)
        observation, reward, *_ = env.step(policy(observation))
        rewards.append(reward)
    del states[-AHEAD:]
    returns += [weights @ rewards[t : t + AHEAD] for t in range(AHEAD)]
states, returns = np.array(states), np.array(returns)

# %%
# Left the value of all states and, in white, the points that carry the function. Right the values
# of fresh episodes beside the rewards then collected.

angle, velocity = np.meshgrid(np.linspace(-np.pi, np.pi, 121), np.linspace(-8, 8, 81))
grid = np.stack([np.cos(angle), np.sin(angle), velocity / 4.0], axis=-1).reshape(-1, 3)
values = model.predict(grid).reshape(angle.shape)
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
figure.colorbar(left.contourf(angle, velocity, values, levels=20), ax=left, label="value")
cosine, sine, speed = model.dictionary_.T
left.plot(np.arctan2(sine, cosine), 4.0 * speed, "o", mfc="none", mec="white", ms=4)
left.set(xlabel="angle (0: upright)", ylabel="velocity", ylim=(-8, 8))
right.plot(returns, model.predict(states), ".", color="#0072B2", alpha=0.3)
right.axline((returns.min(), returns.min()), slope=1, color="black", lw=1)
title = f"{model.model_order_} points, R² = {model.score(states, returns):.2f}"
right.set(xlabel="rewards collected", ylabel="value", title=title)
right.spines[["top", "right"]].set_visible(False)
plt.show()
