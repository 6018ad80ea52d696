"""Which topics are in these texts?
================================

Forty short texts on three themes, with their themes known.
"""

import matplotlib.pyplot as plt
import numpy as np

from drnmf.apps.text import count_words, fit_topics

THEMES = {
    "sea": "ship harbour wave captain sail anchor island storm crew voyage",
    "garden": "rose seed soil spade tomato blossom compost bee apple harvest",
    "music": "piano violin melody concert rhythm choir tempo chord singer stage",
}

# Every text draws most of its words from its own theme and some from all.
rng = np.random.default_rng(0)
texts, themes = [], []
for theme, words in THEMES.items():
    for _ in range(14):
        own = rng.choice(words.split(), 25, p=rng.dirichlet(np.full(10, 0.7)))
        other = rng.choice(" ".join(THEMES.values()).split(), 8)
        texts.append(" ".join([*own, *other]))
        themes.append(theme)

corpus = count_words(texts, min_df=2).with_labels(themes)
topics = fit_topics(corpus, 3)  # under Kullback-Leibler and Frobenius at once

for k in range(3):
    print(f"topic {k + 1}:", ", ".join(f"{word} {100 * share:.0f} %" for word, share in topics.top_words(k, 6)))
for name, found in topics.scores().items():
    print(f"{name:>7}: accuracy {found.accuracy:.2f}, NMI {found.nmi:.2f}, ARI {found.ari:.2f}")
print("shares of the first text:", topics.shares[0].round(2))

# %%
# Every text as its shares of the topics: the three blocks are the three themes.

figure, axis = plt.subplots(figsize=(6.5, 2.2), layout="constrained")
axis.imshow(topics.shares.T, aspect="auto", cmap="Blues", vmin=0)
axis.set(xlabel="text", ylabel="topic", yticks=range(3), yticklabels=(1, 2, 3))
plt.show()
