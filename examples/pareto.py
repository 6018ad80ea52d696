"""The trade-off between two losses
================================

The points between NMF for one loss and NMF for another, and the one on the front that DR-NMF picks (section 5.1 of
the paper, smaller).
"""

import matplotlib.pyplot as plt

from drnmf import DRNMF, pareto_front
from drnmf.synthetic import synthetic

data = synthetic((0, 2), shape=(80, 60), rank=5, noise=0.1, random_state=0)

# As in the paper every run starts from the true factors, so that points differ by their weights alone.
front = pareto_front(
    DRNMF(5, betas=(0, 2), init="custom", zeros="floor", max_iter=200, tol=0), data.X, weights=11, W=data.W, H=data.H
)

print("weight of IS   IS / best   Fro / best")
for point, worse in zip(front.points, front.dominated, strict=True):
    print(
        f"{point.weights[0]:12.1f}   {point.scaled_losses[0]:9.4f}   {point.scaled_losses[1]:10.4f}",
        "*" if worse else "",
    )
print(f"DR-NMF {front.dr.weights[0]:5.2f}   {front.dr.scaled_losses[0]:9.4f}   {front.dr.scaled_losses[1]:10.4f}")
if front.dominated.any():
    print("* dominated: another point is better in both losses (fits end in local minima)")

# %%
# Each point weighs the two losses in its own way; DR-NMF finds the weights under which the larger one is smallest.

figure, axis = plt.subplots(figsize=(5.5, 4), layout="constrained")
for point, worse in zip(front.points, front.dominated, strict=True):
    axis.plot(*point.scaled_losses, "o", color="0.75" if worse else "tab:blue")
axis.plot(*front.dr.scaled_losses, "*", ms=15, color="tab:red", label="DR-NMF")
axis.axline((1, 1), slope=1, lw=0.8, color="0.6")
axis.set(xlabel="Itakura-Saito / its best", ylabel="Frobenius / its best")
axis.legend()
plt.show()
