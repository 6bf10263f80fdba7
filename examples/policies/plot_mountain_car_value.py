"""
What is a state worth? A car that must swing to climb a hill
============================================================

Policy evaluation: the rewards to be expected from every state, under a policy that is not changed.
The value winds around the valley like the car does. Needs Gymnasium: ``pip install "mercer[rl]"``.
"""

import gymnasium
import matplotlib.pyplot as plt
import numpy as np

from mercer import ValueFunction

# %%
# Position and velocity, both of a size of about 1; the policy pushes where the car is moving, most
# of the time.

N_ROWS = 20_000
DISCOUNT = 0.98
SCALE = np.array([0.5, 0.04])
N_EPISODES = 10


class Scaled(gymnasium.ObservationWrapper):
    def observation(self, observation):
        return observation / SCALE


def noisy_policy(seed):
    rng = np.random.default_rng(seed)

    def policy(observation):
        push = np.sign(observation[1]) if rng.uniform() < 0.8 else rng.uniform(-1.0, 1.0)
        return np.array([push], dtype=np.float32)

    return policy


env = Scaled(gymnasium.make("MountainCarContinuous-v0"))
model = ValueFunction(DISCOUNT, n_passes=10, random_state=0)
model.fit_env(env, noisy_policy(0), N_ROWS, seed=0)

# %%
# The truth to compare with: fresh episodes, and the rewards collected from each state on.

policy, states, returns = noisy_policy(1), [], []
for seed in range(N_EPISODES):
    observation, _ = env.reset(seed=1000 + seed)
    rewards, over = [], (False, False)
    while not any(over):
        states.append(observation)
        observation, reward, *over, _ = env.step(policy(observation))
        rewards.append(reward)
    total = 0.0
    returns += [total := r + DISCOUNT * total for r in rewards[::-1]][::-1]
states, returns = np.array(states), np.array(returns)

# %%
# Left the value of all states; dots are two episodes, circles the points that carry the function.
# Right the values of fresh episodes beside the rewards collected.

position, velocity = np.meshgrid(np.linspace(-1.2, 0.6, 121), np.linspace(-0.07, 0.07, 81))
grid = np.stack([position, velocity], axis=-1) / SCALE
values = model.predict(grid.reshape(-1, 2)).reshape(position.shape)
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
figure.colorbar(left.contourf(position, velocity, values, 20), ax=left, label="value")
left.plot(*(states[:300] * SCALE).T, "w.", ms=2)
left.plot(*(model.dictionary_ * SCALE).T, "o", mfc="none", mec="white", ms=6)
left.set(xlabel="position", ylabel="velocity", xlim=(-1.2, 0.6), ylim=(-0.07, 0.07))
right.plot(returns, model.predict(states), ".", color="#0072B2", alpha=0.3)
right.axline((0.0, 0.0), slope=1, color="black", lw=1)
title = f"{model.model_order_} points, R² = {model.score(states, returns):.2f}"
right.set(xlabel="rewards collected", ylabel="value", title=title)
right.spines[["top", "right"]].set_visible(False)
plt.show()
