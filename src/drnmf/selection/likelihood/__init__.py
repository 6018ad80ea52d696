"""How likely entries are under a noise, and how sure the differences are."""
