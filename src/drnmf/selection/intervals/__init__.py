"""Error bars that cover: draws from the fitted mean and noise, fitted again, widened by what a second level says."""
